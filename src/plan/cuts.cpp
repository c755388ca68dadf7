#include "plan/cuts.h"

#include "hopper/schedule/dense.h"
#include "plan/choose.h"
#include "plan/legality.h"

namespace tilewright::planner {

std::vector<std::int64_t> cuts(const hopper::Tile& tile, std::int64_t k) {
    const int k_blocks = static_cast<int>((k + tile.k - 1) / tile.k);
    std::vector<std::int64_t> result;
    for (int slice = 1; slice < tile.split_k; ++slice) {
        result.push_back(std::int64_t{tile.k} * hopper::slice_begin(k_blocks, tile.split_k, slice));
    }
    return result;
}

std::vector<std::int64_t> planned_cuts(const Problem& problem, const DeviceDescription& device) {
    const Work work = describe(problem);
    const hopper::Tile family = family_tile(work);
    if (work.empty() || !has_kernel(family) || !obstacles(work).empty()) return {};
    return cuts(device_tile(choose(work, device, tuned_rows()).tile, family), work.k);
}

}  // namespace tilewright::planner
