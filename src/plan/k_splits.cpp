#include "plan/k_splits.h"

#include "hopper/schedule/dense.h"
#include "plan/choose.h"
#include "plan/legality.h"
#include "problem/canonical_order.h"

namespace tilewright::planner {

std::vector<std::int64_t> k_splits(const hopper::Tile& tile, std::int64_t k) {
    const int k_blocks = static_cast<int>((k + tile.shape.k - 1) / tile.shape.k);
    std::vector<std::int64_t> result;
    for (int slice = 1; slice < k_slices(tile); ++slice) {
        result.push_back(std::int64_t{tile.shape.k} * hopper::k_slice_begin(tile, k_blocks, slice));
    }
    return result;
}

std::vector<std::int64_t> planned_k_splits(const Problem& problem, const DeviceDescription& device) {
    Geometry call = geometry(problem);
    // Weights that are not packed have the bits of packed ones, in whatever order their codes are.
    const bool of_fp4 = is_mxfp4(call.b.recipe) || is_nvfp4(call.b.recipe);
    if (of_fp4 && !call.b.packed.given) call.b.value_strides = {.row = call.k, .k = 1};
    if (of_fp4 && (is_bf16(call.a.recipe) || is_nvfp4(call.a.recipe))) call.b.packed.given = true;
    const Workload work = describe(problem, call);
    if (work.empty() || !obstacles(work).empty()) return {};
    return k_splits(choose(work, device, tuned_rows()), work.k);
}

}  // namespace tilewright::planner
