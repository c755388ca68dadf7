// A problem that needs a workspace, run on the emulator: what writes the workspace, then one kernel.
#pragma once

#include "emulator/kernel_case.h"

#include <cstddef>
#include <string>

namespace tilewright::tests {

/// As `difference` of kernel_case.h; nothing outside the workspace may be written either. `packs`: weights are packed
/// in advance. The call then prepares activations, or weights that are expanded for a kernel of FP8 weights.
std::string prepared_difference(const EmulatedKernel& kernel, check::Case& test, const Conditions& run, bool packs);

}  // namespace tilewright::tests
