// Layers of experts over ranks of this process as rows of `tilewright verify moe --ranks`. Ranks that send rows return
// the bits of one. Ranks that send sums return those of the sums' definition.
#pragma once

#include <functional>
#include <vector>

#include "verify/moe.h"

namespace tilewright::verify {

/// The families whose ranks have the bits of one rank. Scales of a whole tensor are left out, because ranks differ in
/// them. So are f16 and f32, which are never invariant.
std::vector<MoeFamily> ranked_moe_families();

/// The layers of tokens of moe_cases_of, with experts for all ranks and invariant products. FP4 weights are not packed.
std::vector<check::MoeSpec> ranked_cases_of(const MoeFamily& family, int ranks, bool quick);

/// Each case by addresses and by collectives, with rows and with sums in bf16 and f32. Sums are compared without shared
/// experts.
RowResult run_ranked_moe(const MoeFamily& family, int ranks, const VerifySettings& settings,
                         const std::function<void()>& progress);

}  // namespace tilewright::verify
