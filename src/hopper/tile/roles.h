// The role of each warp of a block, and the arrivals that complete a phase of each barrier. gemm.h shows both as
// tables.
#pragma once

#include "hopper/tile/operands.h"

namespace tilewright::hopper {

/// The duties of a warp.
enum class Role : unsigned char {
    load,  // Loads operands, and 1x128 scales if TMA can, by TMA.
    // Grouped: reads the group sizes and produces work tiles. Also loads 128x128 and epilogue scales.
    scheduler,
    block_and_epilogue_scales,  // Loads these scales in kernels without a scheduler.
    // Loads or copies 1x128 scales that TMA cannot load. In m-grouped kernels it looks for rows of two groups. In
    // k-grouped kernels it clears the bytes after the end of a group in its last k-block.
    row_scales,
    store,  // Stores D from shared memory by TMA.
    spare,
    multiply,
};

inline constexpr int producer_warps = 4;  // one warpgroup, so that setmaxnreg can take its registers

constexpr int consumer_warps(const Tile& tile) { return tile.shape.warpgroups * warpgroup_warps; }
constexpr int block_threads(const Tile& tile) { return (producer_warps + consumer_warps(tile)) * warp_threads; }

constexpr Role role_of(const Tile& tile, int warp) {
    if (warp >= producer_warps) return Role::multiply;
    if (warp == 0) return Role::load;
    if (warp == 1) {
        if (has_scheduler(tile)) return Role::scheduler;
        const bool loads_scales = has_block_scales(tile) || has_epilogue_scales(tile);
        return loads_scales ? Role::block_and_epilogue_scales : Role::spare;
    }
    if (warp == 2) return has_row_scales(tile) || has_scheduler(tile) ? Role::row_scales : Role::spare;
    return splits_k(tile) ? Role::spare : Role::store;
}

// ---- Arrivals

/// The arrivals of `warps` warps after their lanes have synchronised.
constexpr int arrivals_of(const Tile& tile, int warps) {
    return tile.debug.every_lane_arrives ? warps * warp_threads : warps;
}
/// Warps that load 1x128 scales.
constexpr int row_scale_warps(const Tile& tile, bool scales_by_tma) {
    return has_row_scales(tile) && !scales_by_tma ? 1 : 0;
}
/// The loading thread, which expects the bytes, and the warp that loads row scales.
constexpr int full_arrivals(const Tile& tile, bool scales_by_tma) {
    return 1 + arrivals_of(tile, row_scale_warps(tile, scales_by_tma));
}
/// The loading thread, which expects the bytes of a k-block in which a group ends.
constexpr int landed_arrivals(const Tile&) { return 1; }
/// Each consumer warp, in every block whose loads wait for this stage.
constexpr int empty_arrivals(const Tile& tile) {
    return arrivals_of(tile, consumer_warps(tile)) * (shares_operand(tile) ? tile.cluster.size : 1);
}
/// Each consumer warp, once.
constexpr int ended_arrivals(const Tile& tile) { return arrivals_of(tile, consumer_warps(tile)); }
/// The warps of the warpgroup that stages. D of f32: the warps of all warpgroups.
constexpr int staged_arrivals(const Tile& tile) {
    return arrivals_of(tile, stores_f32(tile) ? consumer_warps(tile) : warpgroup_warps);
}
constexpr int stored_arrivals(const Tile&) { return 1; }
/// Block and epilogue scales: the warp that loads them; the warps that read them.
constexpr int scales_full_arrivals(const Tile& tile) { return arrivals_of(tile, 1); }
constexpr int scales_empty_arrivals(const Tile& tile) { return arrivals_of(tile, consumer_warps(tile)); }
/// Split-K: the thread that expects the bytes; each consumer warp of the cluster.
constexpr int slices_full_arrivals(const Tile&) { return 1; }
constexpr int slices_read_arrivals(const Tile& tile) { return consumer_warps(tile) * tile.cluster.size; }
/// One thread of the scheduler.
constexpr int work_full_arrivals(const Tile&) { return 1; }
/// Each warp that takes work tiles from the scheduler.
constexpr int work_empty_arrivals(const Tile& tile, bool scales_by_tma, bool stored_by_tma) {
    const int stores = stored_by_tma && !splits_k(tile) ? 1 : 0;
    const int row_scales = is_k_grouped(tile) ? 1 : row_scale_warps(tile, scales_by_tma);
    return arrivals_of(tile, 1 + row_scales + consumer_warps(tile) + stores);
}

}  // namespace tilewright::hopper
