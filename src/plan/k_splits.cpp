#include "plan/k_splits.h"

#include "base/math.h"
#include "hopper/description/design.h"
#include "hopper/schedule/dense.h"
#include "plan/choose.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {

std::vector<std::int64_t> k_splits(const hopper::Kernel& kernel, std::int64_t k) {
    const hopper::Design tile = design_of(kernel);
    const int k_blocks = static_cast<int>(ceil_div<std::int64_t>(k, tile.stage_k));
    std::vector<std::int64_t> result;
    for (int slice = 1; slice < tile.cluster.k_slices(); ++slice) {
        result.push_back(std::int64_t{tile.stage_k} * hopper::k_slice_begin(tile, k_blocks, slice));
    }
    return result;
}

std::vector<std::int64_t> planned_k_splits(const Problem& problem, const DeviceDescription& device) {
    const Workload work = workload(problem);
    // Weights have the bits of packed ones, also if their codes are in an order that no kernel packs.
    if (work.empty() || !without_kernels(work.asked).empty()) return {};
    return k_splits(choose(work, device, tuned_rows()), work.k);
}

}  // namespace tilewright::planner
