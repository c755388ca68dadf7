// Compiles kernels for the emulator; the generated files are made of calls of `add`.
#pragma once

#include "emulator/kernels.h"
#include "hopper/gemm.h"

#include "emulator/primitives.h"

namespace tilewright::tests {

template <hopper::Tile tile>
void add(std::vector<Kernel>& list) {
    list.push_back({.tile = tile, .run = &hopper::gemm<tile>});
}

}  // namespace tilewright::tests
