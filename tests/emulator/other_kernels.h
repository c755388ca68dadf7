// The kernels that are not products, run by the emulator.
#pragma once

#include "emulator/emulator.h"
#include "launch/other_kernels.h"

#include <cstdint>
#include <vector>

namespace tilewright::tests {

/// Runs a launch, if it has blocks. Throws emulator::Error, also where its kernel is missing, which is a test's
/// mistake.
void run_on_emulator(const launch::OtherLaunch& launch, std::uint64_t seed = 0, emulator::Counts* counts = nullptr);
/// Runs launches one after another.
void run_on_emulator(const std::vector<launch::OtherLaunch>& launches, std::uint64_t seed = 0);

}  // namespace tilewright::tests
