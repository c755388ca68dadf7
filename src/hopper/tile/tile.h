// The one template parameter of every kernel. The other headers of this directory, by theme, define what follows from
// it. The planner judges candidates by these functions and the kernel is built from them, so that the two cannot
// differ. C++20 without standard headers, because NVRTC and the host compile it.
#pragma once

#include "base/math.h"

namespace tilewright::hopper {

/// The value format of an operand in memory and in shared memory.
enum class Storage : unsigned char {
    e4m3,
    e5m2,
    // MXFP4 weights with their scales, packed for fp8 (src/formats/packed_layout.h); multiplied as e4m3.
    packed_e2m1,
    // As packed_e2m1, but rows may be wide: k-blocks are multiplied in exponent windows.
    windowed_e2m1,
    // Tokens, decoded ones too, with the two bf16 packings below; also weights that were expanded or decoded.
    bf16,
    // MXFP4 and NVFP4 weights, packed for bf16 (src/formats/packed_layout.h); multiplied as bf16.
    packed_mxfp4_bf16,
    packed_nvfp4_bf16,
    // As packed_mxfp4_bf16, but rows may be wide: wide rows are multiplied separately, 32 k-elements at a time.
    wide_mxfp4_bf16,
    // As windowed_e2m1, but the values stay in K-major rows; tiles have only the data that follow the values.
    raw_e2m1,
};

/// The dimension of an operand that is contiguous in memory: k, or its rows (m of A, n of B).
enum class Major : unsigned char { k, mn };

/// The place where the scales of an operand are applied.
enum class Scaling : unsigned char {
    none,
    // Per tensor or per row: constant along k, so that they multiply the finished accumulators once.
    epilogue,
    // One f32 per row and 128 k-elements, in the mainloop.
    block_1x128,
    // One f32 per 128 rows and 128 k-elements, in the mainloop.
    block_128x128,
    // One f32 per group: NVFP4's tensor scale, of an operand that is bf16 here; see `ends_with_tensor_scale`.
    alpha,
    // One power of two per row and 32 k-elements, in the mainloop.
    block_1x32,
    // MXFP4 weights: one power of two per row, in the epilogue, after the other side's scale.
    factor,
    // Scales of fp8 paired with block_1x32, in the mainloop: of rows, the tensor, 1x128 or (of B) 128x128. All steps of
    // 32 k-elements share them.
    repeated,
};

/// The data that the blocks of a cluster share.
enum class ClusterUse : unsigned char {
    none,  // No cluster.
    // A's tile, multicast to all blocks, which are neighbours along D's columns.
    share_a,
    share_b,  // B's tile; the blocks are neighbours along D's rows.
    // The tile of D: each block multiplies a slice of k, and the slices are added in ascending order.
    split_k,
};

/// The problems that a kernel serves.
///
/// - dense: dense and batched
/// - m_grouped: m-grouped and masked
/// - k_grouped: k-grouped, with aligned beginnings of groups
/// - k_mapped: k-grouped, with groups that begin anywhere or are one matrix after another; each group has its own
///   tensor maps
enum class Family : unsigned char { dense, m_grouped, k_grouped, k_mapped };

/// Code for calls that a kernel does not serve costs time even if it never runs (docs/hopper_lessons.md).
enum class Variant : unsigned char {
    general,
    // D bf16 by TMA, alpha 1, no C, k > 0; 1x128 scales by TMA, contiguous along rows.
    fast,
    // The same with 1x128 scales of A contiguous along k, or f32 scales in any strides, by copies.
    fast_k_major_scales,
    // D f32 by TMA, C too, any alpha, k > 0; f32 scales in any strides, along m by TMA.
    fast_f32,
};

/// The dimensions of the tensor core: m counts rows of mma A (64 per wgmma), n counts rows of mma B (8 to 256).
struct Shape {
    int m = 128;
    int n = 128;
    int k = 128;         // elements in a stage: stage_k
    int warpgroups = 2;  // warpgroups that multiply, m / warpgroups rows each

    constexpr bool operator==(const Shape&) const = default;
};

struct Cluster {
    ClusterUse use = ClusterUse::none;
    int size = 1;  // blocks

    constexpr bool operator==(const Cluster&) const = default;
};

struct OperandSpec {
    Storage storage = Storage::e4m3;
    Scaling scaling = Scaling::epilogue;
    Major major = Major::k;

    constexpr bool operator==(const OperandSpec&) const = default;
};

struct Mma {
    /// Partial accumulators of 128 products are added to fp32 registers. Otherwise the tensor core adds all of k.
    bool promoted = true;

    constexpr bool operator==(const Mma&) const = default;
};

/// For tests.
struct Debug {
    /// Every lane arrives on mbarriers, because compute-sanitizer's racecheck does not follow __syncwarp to the
    /// electing lane (172 false reports on the shipped kernels). Only without a cluster.
    bool every_lane_arrives = false;
    /// Warps write their events and the SM's clock to memory after the report (block/stamps.h). Do not time calls with
    /// it.
    bool stamps = false;

    constexpr bool operator==(const Debug&) const = default;
};

struct Tile {
    Shape shape{};
    int stages = 4;
    /// mma A is the weights (B) and mma B the tokens (A), for few tokens: n has steps of 8, m of 64.
    bool swap_ab = false;
    Cluster cluster{};
    OperandSpec a{};
    OperandSpec b{};
    Mma mma{};
    Family family = Family::dense;
    Variant variant = Variant::general;
    Debug debug{};

    constexpr bool operator==(const Tile&) const = default;
};

inline constexpr int warp_threads = 32;
inline constexpr int warpgroup_threads = 128;
inline constexpr int warpgroup_warps = 4;
inline constexpr int wgmma_m = 64;         // Rows of a wgmma.
inline constexpr int warp_rows = 16;       // Rows of a wgmma in a warp's registers.
inline constexpr int row_bytes = 128;      // Bytes of an operand's row in a box: the width of the swizzle.
inline constexpr int token_box_rows = 32;  // Rows of a TMA box of tokens, if groups end anywhere.

/// Rows and columns of D in one tile.
constexpr int d_rows(const Tile& tile) { return tile.swap_ab ? tile.shape.n : tile.shape.m; }
constexpr int d_columns(const Tile& tile) { return tile.swap_ab ? tile.shape.m : tile.shape.n; }
constexpr int rows_per_warpgroup(const Tile& tile) { return tile.shape.m / tile.shape.warpgroups; }

constexpr bool is_fast(const Tile& tile) { return tile.variant != Variant::general; }
constexpr bool has_k_major_scales(const Tile& tile) { return tile.variant == Variant::fast_k_major_scales; }

/// C is loaded into the memory through which D leaves (epilogue/f32_store.h).
constexpr bool stores_f32(const Tile& tile) { return tile.variant == Variant::fast_f32; }

constexpr bool splits_k(const Tile& tile) { return tile.cluster.use == ClusterUse::split_k; }
/// Slices of k, one per block of the cluster.
constexpr int k_slices(const Tile& tile) { return splits_k(tile) ? tile.cluster.size : 1; }
constexpr bool shares_operand(const Tile& tile) {
    return tile.cluster.use == ClusterUse::share_a || tile.cluster.use == ClusterUse::share_b;
}
constexpr Cluster share_a(int blocks) { return {ClusterUse::share_a, blocks}; }
constexpr Cluster share_b(int blocks) { return {ClusterUse::share_b, blocks}; }
constexpr Cluster split_k(int slices) { return slices == 1 ? Cluster{} : Cluster{ClusterUse::split_k, slices}; }

/// Whether an operand is MN-major. It is mma A then: wgmma takes fp8 from shared memory only if it is K-major, but mma
/// A can be in registers (tile/feeds.h).
constexpr bool has_mn_major(const Tile& tile) { return tile.a.major == Major::mn || tile.b.major == Major::mn; }

/// The format that the tensor core multiplies, and its bytes per element.
constexpr Storage multiplied_as(Storage storage) {
    switch (storage) {
        case Storage::packed_e2m1:
        case Storage::windowed_e2m1:
        case Storage::raw_e2m1: return Storage::e4m3;
        case Storage::packed_mxfp4_bf16:
        case Storage::wide_mxfp4_bf16:
        case Storage::packed_nvfp4_bf16: return Storage::bf16;
        default: return storage;
    }
}
constexpr int element_bytes(Storage storage) { return multiplied_as(storage) == Storage::bf16 ? 2 : 1; }
constexpr bool multiplies_bf16(const Tile& tile) { return multiplied_as(tile.a.storage) == Storage::bf16; }

/// FP4 weights in tiles of values and scales, which a feed decodes. A row's MXFP4 scales have a common factor.
constexpr bool is_packed(Storage storage) { return multiplied_as(storage) != storage; }
constexpr bool has_packed_weights(const Tile& tile) { return is_packed(tile.b.storage); }
/// Elements of k in a stage: as many as a packed tile has. With bf16 on both sides there are half of them, in as many
/// bytes as fp8. With twice as many bytes, only one stage of 128x256 would fit in addition to D.
constexpr int stage_k(const Tile& tile) { return multiplies_bf16(tile) && !has_packed_weights(tile) ? 64 : 128; }
/// TMA boxes of a row's k in a stage, and k-elements in one box of 128 bytes.
constexpr int k_boxes(const Tile& tile) { return stage_k(tile) * element_bytes(tile.a.storage) / row_bytes; }
constexpr int box_k(const Tile& tile) { return stage_k(tile) / k_boxes(tile); }
/// Whether rows of weights may be wide (docs/numerics.md).
constexpr bool has_windows(Storage storage) {
    return storage == Storage::windowed_e2m1 || storage == Storage::raw_e2m1;
}
constexpr bool has_windows(const Tile& tile) { return has_windows(tile.b.storage); }
/// Whether weights are read in place: unpacked values in K-major rows, as the caller has them.
constexpr bool has_raw_codes(const Tile& tile) { return tile.b.storage == Storage::raw_e2m1; }
/// Whether rows of weights for bf16 may be wide. There, wide rows have no windows; each 32 k-elements are promoted
/// (mainloop/wide_rows.h).
constexpr bool has_wide_rows(const Tile& tile) { return tile.b.storage == Storage::wide_mxfp4_bf16; }
inline constexpr int packed_tile_rows = 64;  // rows of B per packed tile
inline constexpr int packed_tile_k = 128;    // k-elements per packed tile
inline constexpr int packed_code_bytes = 64 * 128 / 2;
/// Bytes of scales per row of a tile.
constexpr int packed_scales(Storage storage) { return storage == Storage::packed_nvfp4_bf16 ? 8 : 4; }
constexpr int packed_tile_bytes(Storage storage) {
    return packed_code_bytes + packed_tile_rows * packed_scales(storage);
}
// per row and 128 k-elements: one window per scale
inline constexpr int most_windows = 4;
inline constexpr int packed_window_bytes = 64;  // exponents of a window, after 16 bytes about all windows
constexpr int windowed_tile_bytes(int windows) {
    return packed_tile_bytes(Storage::windowed_e2m1) + 16 + windows * packed_window_bytes;
}
inline constexpr int raw_row_bytes = packed_tile_k / 2;  // Unpacked values in a stage: the width of their swizzle.
inline constexpr int raw_tile_bytes = windowed_tile_bytes(most_windows) - packed_code_bytes;
/// Whether an operand is NVFP4, decoded to bf16 or packed.
constexpr bool is_nvfp4_a(const Tile& tile) { return tile.a.scaling == Scaling::alpha; }
constexpr bool is_nvfp4_b(const Tile& tile) {
    return tile.b.scaling == Scaling::alpha || tile.b.storage == Storage::packed_nvfp4_bf16;
}
constexpr bool scales_sums(Scaling scaling) { return scaling != Scaling::none && scaling != Scaling::alpha; }
/// Whether the scale of an NVFP4 tensor is an epilogue scale, together with the other side's scales (docs/numerics.md).
/// Otherwise it is part of alpha.
constexpr bool ends_with_tensor_scale(const Tile& tile) {
    return (is_nvfp4_a(tile) && scales_sums(tile.b.scaling)) || (is_nvfp4_b(tile) && scales_sums(tile.a.scaling));
}
constexpr bool scales_alpha(const Tile& tile) {
    return (is_nvfp4_a(tile) || is_nvfp4_b(tile)) && !ends_with_tensor_scale(tile);
}
/// The scaling of packed weights outside of the mainloop.
constexpr Scaling packed_scaling(Storage storage) {
    return storage == Storage::packed_nvfp4_bf16 ? Scaling::none : Scaling::factor;
}

inline constexpr int step_k = 32;  // k-elements per scale of 1x32: a step

/// Whether scales of a side change with each step. A step's partial accumulator is promoted before the next step's
/// (mainloop/stepwise.h).
constexpr bool promotes_each_step(const Tile& tile) {
    return tile.a.scaling == Scaling::block_1x32 || tile.b.scaling == Scaling::block_1x32;
}
constexpr int steps_in_stage(const Tile& tile) { return tile.shape.k / step_k; }
/// The scaling of a side that can be combined with scales per step. A side in fp8 has scales that all steps share, or
/// MXFP4's factors. A side in bf16 has no other scales in the mainloop.
constexpr bool goes_with_steps(const OperandSpec& side) {
    if (side.scaling == Scaling::block_1x32) return true;
    if (multiplied_as(side.storage) != Storage::bf16) {
        return side.scaling == Scaling::repeated || side.scaling == Scaling::factor;
    }
    return side.scaling == Scaling::none || side.scaling == Scaling::alpha;
}

/// Whether only the device knows the rows of groups.
constexpr bool is_grouped(const Tile& tile) { return tile.family == Family::m_grouped; }
/// Whether only the device knows the k of groups.
constexpr bool is_k_grouped(const Tile& tile) {
    return tile.family == Family::k_grouped || tile.family == Family::k_mapped;
}
/// Whether kernels write tensor maps per group (mainloop/group_maps.h).
constexpr bool maps_groups(const Tile& tile) { return tile.family == Family::k_mapped; }
/// Whether TMA loads k-blocks to their end, including the bytes after the end of a group (mainloop/clear_rest.h).
constexpr bool clears_rests(const Tile& tile) { return tile.family == Family::k_grouped; }
/// Whether one warp reads the sizes of groups and produces work tiles for the others.
constexpr bool has_scheduler(const Tile& tile) { return is_grouped(tile) || is_k_grouped(tile); }
/// Whether warpgroups whose rows all follow the end of D, or of a group, neither multiply nor store.
constexpr bool skips_rows(const Tile& tile) { return tile.shape.warpgroups > 1 && !tile.swap_ab && !splits_k(tile); }
/// Whether TMA boxes of A whose rows all follow the end of a group are not loaded.
constexpr bool skips_boxes(const Tile& tile) {
    return is_grouped(tile) && (skips_rows(tile) || (tile.swap_ab && tile.shape.n > token_box_rows));
}

/// Whether the pair of scales has kernels of all variants. Other pairs have general kernels and kernels for D of f32.
/// Scales of packed weights are decoded with them. A folded gradient of weights has 1x128 scales with no scales on the
/// other side.
constexpr bool has_fast_scales(const Tile& tile) {
    if (has_packed_weights(tile)) return true;
    if (tile.family == Family::k_grouped && tile.a.scaling == Scaling::block_1x128 && tile.b.scaling == Scaling::none)
        return true;
    if (tile.a.scaling == Scaling::epilogue) return tile.b.scaling != Scaling::factor;
    return tile.a.scaling == Scaling::block_1x128 &&
           (tile.b.scaling == Scaling::block_1x128 || tile.b.scaling == Scaling::block_128x128);
}

/// Scales of tokens that are multiplied as bf16. Tokens for NVFP4 weights may have been fp8, with scales of rows, of
/// the tensor, 1x128 or 1x32.
constexpr bool goes_with_bf16(const Tile& tile) {
    if (tile.a.scaling == Scaling::none || tile.a.scaling == Scaling::alpha) return true;
    const bool of_fp8 = tile.a.scaling == Scaling::epilogue || tile.a.scaling == Scaling::block_1x128 ||
                        tile.a.scaling == Scaling::block_1x32;
    return of_fp8 && tile.b.storage == Storage::packed_nvfp4_bf16;
}

/// Combinations of fields that have a meaning; any other fails to compile. src/plan/legality.cpp gives reasons for the
/// further rules of a tile.
constexpr bool is_consistent(const Tile& tile) {
    return (tile.cluster.use == ClusterUse::none) == (tile.cluster.size == 1) &&
           (tile.a.scaling == Scaling::block_1x128 || !has_k_major_scales(tile)) &&
           (!is_fast(tile) || stores_f32(tile) || has_fast_scales(tile)) &&
           (tile.a.scaling != Scaling::block_128x128 || tile.b.scaling == Scaling::none ||
            tile.b.scaling == Scaling::block_128x128) &&
           (tile.swap_ab ? tile.a : tile.b).major == Major::k && (!has_mn_major(tile) || !shares_operand(tile)) &&
           (!is_k_grouped(tile) || (!has_mn_major(tile) && tile.cluster.size == 1)) &&
           (!stores_f32(tile) ||
            (!tile.swap_ab && !has_mn_major(tile) && tile.cluster.size == 1 && !is_grouped(tile))) &&
           (!has_packed_weights(tile) || (tile.swap_ab && !has_mn_major(tile) && !shares_operand(tile) &&
                                          !is_k_grouped(tile) && tile.b.scaling == packed_scaling(tile.b.storage))) &&
           multiplies_bf16(tile) == (multiplied_as(tile.b.storage) == Storage::bf16) &&
           (!multiplies_bf16(tile) ||
            (goes_with_bf16(tile) && tile.a.storage == Storage::bf16 && !tile.mma.promoted && !is_fast(tile))) &&
           (tile.b.storage != Storage::bf16 ||
            ((tile.b.scaling == Scaling::factor || tile.b.scaling == Scaling::alpha ||
              tile.b.scaling == Scaling::block_1x32) &&
             tile.shape.k == stage_k(tile) && !has_mn_major(tile) && !shares_operand(tile) && !is_k_grouped(tile))) &&
           (tile.a.scaling != Scaling::alpha || multiplies_bf16(tile)) &&
           (tile.b.scaling != Scaling::alpha || tile.b.storage == Storage::bf16) &&
           (promotes_each_step(tile) ? goes_with_steps(tile.a) && goes_with_steps(tile.b)
                                     : tile.a.scaling != Scaling::repeated && tile.b.scaling != Scaling::repeated) &&
           (!promotes_each_step(tile) || ((rows_per_warpgroup(tile) == wgmma_m || !has_packed_weights(tile)) &&
                                          !has_mn_major(tile) && !shares_operand(tile) && !is_k_grouped(tile) &&
                                          tile.mma.promoted != multiplies_bf16(tile) && !is_fast(tile))) &&
           (!has_raw_codes(tile) || !promotes_each_step(tile)) &&
           (tile.cluster.size == 1 || !tile.debug.every_lane_arrives);
}

}  // namespace tilewright::hopper
