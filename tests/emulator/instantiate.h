// Compiles kernels for the emulator; the generated files are made of calls of `add`.
#pragma once

#include "emulator/kernels.h"
#include "hopper/gemm.h"

#include "emulator/primitives.h"

namespace tilewright::tests {

template <hopper::Kernel tile>
void add(std::vector<EmulatedKernel>& list) {
    list.push_back({.tile = hopper::Design(tile),
                    .run = [](const hopper::AllArguments& arguments) { hopper::gemm<tile>(arguments); }});
}

}  // namespace tilewright::tests
