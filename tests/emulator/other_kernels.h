// The kernels that are not products, run by the emulator. A program of the build (list_kernels.cpp) writes the list of
// instantiations.
#pragma once

#include "emulator/emulator.h"
#include "launch/kernels.h"

#include <cstdint>
#include <vector>

namespace tilewright::tests {

/// Each has a generated file.
inline constexpr const char* other_programs[] = {launch::quantize_source, launch::pack_source, launch::moe_source};

/// All that ship, and others by kind; some more than once.
std::vector<launch::OtherKernel> other_kernels();

/// Runs a launch, if it has blocks. Throws emulator::Error, also where its kernel is missing, which is a test's
/// mistake.
void run_on_emulator(const launch::OtherLaunch& launch, std::uint64_t seed = 0, emulator::Counts* counts = nullptr);
/// Runs launches one after another.
void run_on_emulator(const std::vector<launch::OtherLaunch>& launches, std::uint64_t seed = 0);

}  // namespace tilewright::tests
