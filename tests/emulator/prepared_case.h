// A problem that needs a workspace, run on the emulator: what writes the workspace, then one kernel.
#pragma once

#include "emulator/kernel_case.h"

#include <string>

namespace tilewright::tests {

/// As `difference` of kernel_case.h, and nothing outside of the workspace was written either. `packs`: weights are
/// packed before, and what is prepared are activations, or weights that are expanded for a kernel of FP8 weights.
std::string prepared_difference(const Kernel& kernel, const check::CaseSpec& spec, const Conditions& run,
                                bool packs = false);
/// The same of a case that was changed after it was made.
std::string prepared_difference(const Kernel& kernel, check::Case& test, const Conditions& run, bool packs);

/// The call with what goes with its operands in turns: the orders of scales, C, a bias, outputs, alpha.
check::CaseSpec in_turn(check::CaseSpec spec, std::size_t turn);
/// Few SMs; TMA early and late in turns, wgmma in other ones.
Conditions conditions_of(std::size_t turn, std::size_t other);

/// Windows in no row, in some, in all, and as many as there can be, with NaN and blocks of zeros.
inline constexpr check::FarScales far_scales[] = {{},
                                                  {.one_row_in = 5, .spread = 24},
                                                  {.one_row_in = 1, .spread = 50},
                                                  {.one_row_in = 2, .spread = 254, .odd = true}};

}  // namespace tilewright::tests
