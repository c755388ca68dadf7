// The kernels that pack weights, on the emulator.
#pragma once

#include "launch/weight_packing.h"

namespace tilewright::tests {

/// Runs a launch, if it has blocks. Throws emulator::Error.
void run_on_emulator(const launch::PackLaunch& launch);

}  // namespace tilewright::tests
