// A problem that needs a workspace, run on the emulator: what writes the workspace, then one kernel.
#pragma once

#include "emulator/kernel_case.h"

#include <cstddef>
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

/// A call of a test's list: which of its kernels, and whether weights are packed in advance.
struct PreparedCall {
    std::size_t kernel;
    bool packs;
    check::CaseSpec spec;
};

/// Expects no difference of the call in each turn, with other numbers and, by `with_gaps`, gaps in memory. One turn has
/// scales, of the tensor too, that all groups share.
void expect_bits_in_turns(const Kernel& kernel, const PreparedCall& call,
                          check::CaseSpec (*with_gaps)(check::CaseSpec spec, std::size_t turn), std::size_t seed);

/// Windows in no row, in some, in all, and as many as there can be, with NaN and blocks of zeros.
inline constexpr check::FarScales far_scales[] = {{},
                                                  {.one_row_in = 5, .spread = 24},
                                                  {.one_row_in = 1, .spread = 50},
                                                  {.one_row_in = 2, .spread = 254, .odd = true}};

}  // namespace tilewright::tests
