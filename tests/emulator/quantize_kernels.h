// The quantizers' kernels that the emulator runs, found by the expression under which NVRTC would compile them.
#pragma once

#include "launch/quantize.h"

#include <map>
#include <string>

namespace tilewright::tests {

using QuantizeFunction = void (*)(const launch::QuantizeLaunch&);

/// All of them; a launch whose kernel is missing is a test's mistake.
const std::map<std::string, QuantizeFunction>& quantize_kernels();

/// Runs a call's launches one after another. Throws emulator::Error, also where a kernel is missing.
void run_on_emulator(const std::vector<launch::QuantizeLaunch>& launches, std::uint64_t seed = 0);
void run_on_emulator(const launch::QuantizeLaunch& launch, std::uint64_t seed = 0);

}  // namespace tilewright::tests
