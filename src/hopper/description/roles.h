// The role of each warp of a block, which gemm.h shows as a table.
#pragma once

#include "hopper/description/design.h"

namespace tilewright::hopper {

/// The duties of a warp.
enum class Role : unsigned char {
    load,  // Loads operands, and 1x128 scales if TMA can, by TMA.
    // Grouped: reads the group sizes and produces work tiles. Loads 128x128 and epilogue scales.
    scheduler_and_scales,
    // Loads or copies 1x128 scales that TMA cannot load. In m-grouped kernels it looks for rows of two groups. In
    // k-grouped kernels it clears the bytes after the end of a group in its last k-block.
    row_scales,
    store,  // Stores D from shared memory by TMA.
    spare,
    multiply,
};

constexpr Role role_of(const Design& design, int warp) {
    if (warp >= producer_warps) return Role::multiply;
    if (warp == 0) return Role::load;
    if (warp == 1) {
        const bool loads_scales = design.block_scales_per_k_block > 0 || design.has_epilogue_scales;
        return loads_scales || design.groups != Groups::none ? Role::scheduler_and_scales : Role::spare;
    }
    if (warp == 2)
        return design.order.has(ScaleUse::chains) || design.groups != Groups::none ? Role::row_scales : Role::spare;
    return design.cluster.k_slices > 1 ? Role::spare : Role::store;
}

}  // namespace tilewright::hopper
