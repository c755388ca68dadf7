// The role of each warp of a block, and the arrivals that complete a phase of each barrier. gemm.h shows both as
// tables.
#pragma once

#include "hopper/description/design.h"

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

constexpr Role role_of(const Design& design, int warp) {
    if (warp >= producer_warps) return Role::multiply;
    if (warp == 0) return Role::load;
    if (warp == 1) {
        if (design.has_scheduler()) return Role::scheduler;
        const bool loads_scales = design.has_block_scales || design.has_epilogue_scales;
        return loads_scales ? Role::block_and_epilogue_scales : Role::spare;
    }
    if (warp == 2) return design.has_row_scales() || design.has_scheduler() ? Role::row_scales : Role::spare;
    return design.k_slices > 1 ? Role::spare : Role::store;
}

// ---- Arrivals

/// The arrivals of `warps` warps after their lanes have synchronised.
constexpr int arrivals_of(const Design& design, int warps) {
    return design.debug.every_lane_arrives ? warps * warp_threads : warps;
}
/// Warps that load 1x128 scales.
constexpr int row_scale_warps(const Design& design, bool scales_by_tma) {
    return design.has_row_scales() && !scales_by_tma ? 1 : 0;
}
/// The loading thread, which expects the bytes, and the warp that loads row scales.
constexpr int full_arrivals(const Design& design, bool scales_by_tma) {
    return 1 + arrivals_of(design, row_scale_warps(design, scales_by_tma));
}
/// The loading thread, which expects the bytes of a k-block in which a group ends.
constexpr int landed_arrivals(const Design&) { return 1; }
/// Each consumer warp, in every block whose loads wait for this stage.
constexpr int empty_arrivals(const Design& design) {
    return arrivals_of(design, design.consumer_warps) * (design.cluster.shares_operand() ? design.cluster.size : 1);
}
/// Each consumer warp, once.
constexpr int ended_arrivals(const Design& design) { return arrivals_of(design, design.consumer_warps); }
/// The warps of the warpgroup that stages. D of f32: the warps of all warpgroups.
constexpr int staged_arrivals(const Design& design) {
    return arrivals_of(design, design.output == Output::f32_by_tma ? design.consumer_warps : warpgroup_warps);
}
constexpr int stored_arrivals(const Design&) { return 1; }
/// Block and epilogue scales: the warp that loads them; the warps that read them.
constexpr int scales_full_arrivals(const Design& design) { return arrivals_of(design, 1); }
constexpr int scales_empty_arrivals(const Design& design) { return arrivals_of(design, design.consumer_warps); }
/// Split-K: the thread that expects the bytes; each consumer warp of the cluster.
constexpr int slices_full_arrivals(const Design&) { return 1; }
constexpr int slices_read_arrivals(const Design& design) { return design.consumer_warps * design.cluster.size; }
/// One thread of the scheduler.
constexpr int work_full_arrivals(const Design&) { return 1; }
/// Each warp that takes work tiles from the scheduler.
constexpr int work_empty_arrivals(const Design& design, bool scales_by_tma, bool stored_by_tma) {
    const int stores = stored_by_tma && design.k_slices == 1 ? 1 : 0;
    const int row_scales = design.is_k_grouped() ? 1 : row_scale_warps(design, scales_by_tma);
    return arrivals_of(design, 1 + row_scales + design.consumer_warps + stores);
}

}  // namespace tilewright::hopper
