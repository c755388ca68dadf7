// The kernels around the products of a layer of experts that the emulator runs, found by the expression under which
// NVRTC would compile them.
#pragma once

#include "launch/moe.h"

#include <cstdint>
#include <vector>

namespace tilewright::tests {

/// Runs launches one after another. Throws emulator::Error, also where a kernel is missing.
void run_on_emulator(const std::vector<launch::MoeLaunch>& launches, std::uint64_t seed = 0);

}  // namespace tilewright::tests
