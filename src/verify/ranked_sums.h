// The result of a layer whose ranks send sums, from its definition (docs/numerics.md, "Layers over ranks").
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/shared_layer.h"

namespace tilewright::verify {

/// The sum of each rank's experts for each token, [ranks][tokens * hidden], in f32 and not rounded. Each is the result
/// of a call over the same ranks that sends rows, in which tokens choose experts of that rank only. So its products are
/// planned as those of the call that sends sums. The layer has no shared experts, and the group has no places. Leaves
/// the layer as it was. Throws Error if a rank does.
std::vector<std::vector<float>> sums_of_ranks(check::MoeCase& whole, const ExpertGroupOptions& options,
                                              const std::vector<std::int64_t>& split, const RankedRun& how);

/// The bytes of `whole.output()`: sums in the format of the options, of the ranks that have an expert of a token.
std::vector<std::byte> result_of_sums(check::MoeCase& whole, const ExpertGroupOptions& options,
                                      const std::vector<std::vector<float>>& sums);

}  // namespace tilewright::verify
