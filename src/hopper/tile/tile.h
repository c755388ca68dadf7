// The one template parameter of every kernel: a table of contents. What follows from it is in the other headers of this
// folder, by theme; the planner judges candidates by these functions and the kernel is built from them, so that the two
// cannot differ. C++20 without standard headers: NVRTC and the host compile it.
#pragma once

#include "base/math.h"

namespace tilewright::hopper {

/// Value format of an operand in memory and in shared memory.
enum class Storage : unsigned char {
    e4m3,
    e5m2,
    packed_e2m1,  // MXFP4 weights and their scales as src/formats/packed_layout.h has them for fp8; multiplied as e4m3
    windowed_e2m1,      // the same where rows may be wide: k-blocks are multiplied in windows of exponents
    bf16,               // tokens next to the two below, decoded ones too, and weights that were expanded or decoded
    packed_mxfp4_bf16,  // MXFP4 and NVFP4 weights as that file has them for bf16; multiplied as bf16
    packed_nvfp4_bf16,
    wide_mxfp4_bf16,  // packed_mxfp4_bf16 where rows may be wide: theirs are multiplied apart, 32 of k at a time
    raw_e2m1,         // windowed_e2m1 whose codes stay in rows along k; tiles have what follows them alone
};

/// Which dimension of an operand is contiguous in memory: k, or its rows (m of A, n of B).
enum class Major : unsigned char { k, mn };

/// Where the scales of an operand enter.
enum class Scaling : unsigned char {
    none,
    epilogue,       // per tensor or per row: constant along k, so they multiply the finished accumulators once
    block_1x128,    // one f32 for each row and 128 of k, in the mainloop
    block_128x128,  // one f32 for 128 rows and 128 of k, in the mainloop
    alpha,          // one f32 for each group, NVFP4's tensor scale, of what is bf16 here: `ends_with_tensor_scale`
    block_1x32,     // one power of two for each row and 32 of k, in the mainloop
    factor,         // of MXFP4 weights: one power of two for each row, at the end, after the other side's scale
    repeated,       // of fp8 next to block_1x32, in the mainloop: scales of rows, the tensor, 1x128 or (of B) 128x128,
                    // which each 32 of k has again
};

/// What the blocks of a cluster have in common.
enum class ClusterUse : unsigned char {
    none,     // no cluster
    share_a,  // A's tile, multicast to all; the blocks are neighbours along D's columns
    share_b,  // B's tile; neighbours along D's rows
    split_k,  // the tile of D: each multiplies a slice of k, and the slices are added in ascending order
};

/// Which problems a kernel serves. dense: batched too; m_grouped: masked too; k_grouped: groups that begin aligned;
/// k_mapped: groups of k that begin anywhere, or are one matrix after another, each with separate tensor maps.
enum class Family : unsigned char { dense, m_grouped, k_grouped, k_mapped };

/// The code for calls that a kernel does not serve costs time though it never runs (docs/hopper_lessons.md).
enum class Variant : unsigned char {
    general,
    fast,                 // D bf16 by TMA, alpha 1, no C, k > 0; 1x128 scales by TMA, contiguous along rows
    fast_k_major_scales,  // the same, A's 1x128 scales contiguous along k; or f32 scales in any strides, by copies
    fast_f32,             // D f32 by TMA, C too, any alpha, k > 0; f32 scales in any strides, along m by TMA
};

/// m and n are those of the tensor core: m counts rows of mma A (64 each wgmma), n rows of mma B (8 to 256).
struct Shape {
    int m = 128;
    int n = 128;
    int k = 128;         // elements in a stage: stage_k
    int warpgroups = 2;  // that multiply, each m / warpgroups rows

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
    /// Partial accumulators of 128 products move on to fp32 registers; otherwise the tensor core adds all of k.
    bool promoted = true;

    constexpr bool operator==(const Mma&) const = default;
};

/// For tests.
struct Debug {
    /// Every lane arrives on mbarriers, because compute-sanitizer's racecheck does not follow __syncwarp to the
    /// electing lane (172 false reports on the shipped kernels). Without a cluster only.
    bool every_lane_arrives = false;
    /// Warps write their events and the SM's clock behind the report (block/stamps.h). Not for times of calls.
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
inline constexpr int wgmma_m = 64;         // rows of a wgmma
inline constexpr int warp_rows = 16;       // of them in a warp's registers
inline constexpr int row_bytes = 128;      // of an operand's row in a box: the width of the swizzle
inline constexpr int token_box_rows = 32;  // of a TMA box of tokens, where groups end anywhere

/// Rows and columns of D in one tile.
constexpr int d_rows(const Tile& tile) { return tile.swap_ab ? tile.shape.n : tile.shape.m; }
constexpr int d_columns(const Tile& tile) { return tile.swap_ab ? tile.shape.m : tile.shape.n; }
constexpr int rows_per_warpgroup(const Tile& tile) { return tile.shape.m / tile.shape.warpgroups; }

constexpr bool is_fast(const Tile& tile) { return tile.variant != Variant::general; }
constexpr bool has_k_major_scales(const Tile& tile) { return tile.variant == Variant::fast_k_major_scales; }

/// C is loaded into the memory that D leaves through (epilogue/f32_store.h).
constexpr bool stores_f32(const Tile& tile) { return tile.variant == Variant::fast_f32; }

constexpr bool splits_k(const Tile& tile) { return tile.cluster.use == ClusterUse::split_k; }
/// Slices of k, one for each block of the cluster.
constexpr int k_slices(const Tile& tile) { return splits_k(tile) ? tile.cluster.size : 1; }
constexpr bool shares_operand(const Tile& tile) {
    return tile.cluster.use == ClusterUse::share_a || tile.cluster.use == ClusterUse::share_b;
}
constexpr Cluster share_a(int blocks) { return {ClusterUse::share_a, blocks}; }
constexpr Cluster share_b(int blocks) { return {ClusterUse::share_b, blocks}; }
constexpr Cluster split_k(int slices) { return slices == 1 ? Cluster{} : Cluster{ClusterUse::split_k, slices}; }

/// mma A then, for wgmma takes fp8 along k from shared memory, and mma A from registers too (tile/feeds.h).
constexpr bool has_mn_major(const Tile& tile) { return tile.a.major == Major::mn || tile.b.major == Major::mn; }

/// The format that the tensor core multiplies, and bytes of it.
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

/// FP4 weights in tiles of codes and scales, which a feed decodes. A row's MXFP4 scales have a common factor.
constexpr bool is_packed(Storage storage) { return multiplied_as(storage) != storage; }
constexpr bool has_packed_weights(const Tile& tile) { return is_packed(tile.b.storage); }
/// Elements of k in a stage, as many as a packed tile has. bf16 on both sides has half of them, in the bytes of fp8: of
/// 128x256 only one stage of twice as many would fit besides D.
constexpr int stage_k(const Tile& tile) { return multiplies_bf16(tile) && !has_packed_weights(tile) ? 64 : 128; }
/// TMA boxes of a row's k in a stage, and elements of k in one: 128 bytes.
constexpr int k_boxes(const Tile& tile) { return stage_k(tile) * element_bytes(tile.a.storage) / row_bytes; }
constexpr int box_k(const Tile& tile) { return stage_k(tile) / k_boxes(tile); }
/// Rows of weights may be wide (docs/numerics.md).
constexpr bool has_windows(Storage storage) {
    return storage == Storage::windowed_e2m1 || storage == Storage::raw_e2m1;
}
constexpr bool has_windows(const Tile& tile) { return has_windows(tile.b.storage); }
/// Codes are in rows along k, as the caller has them.
constexpr bool has_raw_codes(const Tile& tile) { return tile.b.storage == Storage::raw_e2m1; }
/// The same next to bf16, where wide rows have no windows but promotion of each 32 of k (mainloop/wide_rows.h).
constexpr bool has_wide_rows(const Tile& tile) { return tile.b.storage == Storage::wide_mxfp4_bf16; }
inline constexpr int packed_tile_rows = 64;  // of B, and
inline constexpr int packed_tile_k = 128;    // of k, in
inline constexpr int packed_code_bytes = 64 * 128 / 2;
/// Bytes of scales of a row in a tile.
constexpr int packed_scales(Storage storage) { return storage == Storage::packed_nvfp4_bf16 ? 8 : 4; }
constexpr int packed_tile_bytes(Storage storage) {
    return packed_code_bytes + packed_tile_rows * packed_scales(storage);
}
inline constexpr int most_windows = 4;          // of a row in 128 of k: one for each of its scales
inline constexpr int packed_window_bytes = 64;  // exponents of a window, after 16 bytes on all windows
constexpr int windowed_tile_bytes(int windows) {
    return packed_tile_bytes(Storage::windowed_e2m1) + 16 + windows * packed_window_bytes;
}
inline constexpr int raw_row_bytes = packed_tile_k / 2;  // of codes in a stage: the width of their swizzle
inline constexpr int raw_tile_bytes = windowed_tile_bytes(most_windows) - packed_code_bytes;
/// NVFP4, decoded to bf16 or packed.
constexpr bool is_nvfp4_a(const Tile& tile) { return tile.a.scaling == Scaling::alpha; }
constexpr bool is_nvfp4_b(const Tile& tile) {
    return tile.b.scaling == Scaling::alpha || tile.b.storage == Storage::packed_nvfp4_bf16;
}
constexpr bool scales_sums(Scaling scaling) { return scaling != Scaling::none && scaling != Scaling::alpha; }
/// Where the scale of an NVFP4 tensor enters (docs/numerics.md): with the other side's scales, or else as part of
/// alpha.
constexpr bool ends_with_tensor_scale(const Tile& tile) {
    return (is_nvfp4_a(tile) && scales_sums(tile.b.scaling)) || (is_nvfp4_b(tile) && scales_sums(tile.a.scaling));
}
constexpr bool scales_alpha(const Tile& tile) {
    return (is_nvfp4_a(tile) || is_nvfp4_b(tile)) && !ends_with_tensor_scale(tile);
}
/// How packed weights are scaled outside the mainloop.
constexpr Scaling packed_scaling(Storage storage) {
    return storage == Storage::packed_nvfp4_bf16 ? Scaling::none : Scaling::factor;
}

inline constexpr int step_k = 32;  // of k that have a scale where scales are of 1x32: a step

/// Scales of a side change with each step: its partial accumulator is promoted before the next one's
/// (mainloop/stepwise.h).
constexpr bool promotes_each_step(const Tile& tile) {
    return tile.a.scaling == Scaling::block_1x32 || tile.b.scaling == Scaling::block_1x32;
}
constexpr int steps_in_stage(const Tile& tile) { return tile.shape.k / step_k; }
/// What a side may have where one has these: of fp8 scales for each step, or MXFP4's factors; of bf16 no others in the
/// mainloop.
constexpr bool goes_with_steps(const OperandSpec& side) {
    if (side.scaling == Scaling::block_1x32) return true;
    if (multiplied_as(side.storage) != Storage::bf16) {
        return side.scaling == Scaling::repeated || side.scaling == Scaling::factor;
    }
    return side.scaling == Scaling::none || side.scaling == Scaling::alpha;
}

/// The rows of groups are known on the device only.
constexpr bool is_grouped(const Tile& tile) { return tile.family == Family::m_grouped; }
/// The k of groups is known on the device only.
constexpr bool is_k_grouped(const Tile& tile) {
    return tile.family == Family::k_grouped || tile.family == Family::k_mapped;
}
/// Kernels write tensor maps for each group (mainloop/group_maps.h).
constexpr bool maps_groups(const Tile& tile) { return tile.family == Family::k_mapped; }
/// TMA loads k-blocks to their end, whatever follows the end of a group there (mainloop/clear_rest.h).
constexpr bool clears_rests(const Tile& tile) { return tile.family == Family::k_grouped; }
/// One warp reads the sizes of groups and produces work tiles for the others.
constexpr bool has_scheduler(const Tile& tile) { return is_grouped(tile) || is_k_grouped(tile); }
/// Warpgroups whose rows all follow the end of D, or of a group, neither multiply nor store.
constexpr bool skips_rows(const Tile& tile) { return tile.shape.warpgroups > 1 && !tile.swap_ab && !splits_k(tile); }
/// TMA boxes of A whose rows all follow the end of a group are not loaded.
constexpr bool skips_boxes(const Tile& tile) {
    return is_grouped(tile) && (skips_rows(tile) || (tile.swap_ab && tile.shape.n > token_box_rows));
}

/// Pairs of scales that have kernels of all variants; the others have general ones, and those for D of f32. Those of
/// packed weights are decoded with them. 1x128 next to no scales is what a folded gradient of weights has.
constexpr bool has_fast_scales(const Tile& tile) {
    if (has_packed_weights(tile)) return true;
    if (tile.family == Family::k_grouped && tile.a.scaling == Scaling::block_1x128 && tile.b.scaling == Scaling::none)
        return true;
    if (tile.a.scaling == Scaling::epilogue) return tile.b.scaling != Scaling::factor;
    return tile.a.scaling == Scaling::block_1x128 &&
           (tile.b.scaling == Scaling::block_1x128 || tile.b.scaling == Scaling::block_128x128);
}

/// Scales of tokens that are multiplied as bf16. Those next to NVFP4 may have been fp8, with scales of rows, of the
/// tensor, 1x128 or 1x32.
constexpr bool goes_with_bf16(const Tile& tile) {
    if (tile.a.scaling == Scaling::none || tile.a.scaling == Scaling::alpha) return true;
    const bool of_fp8 = tile.a.scaling == Scaling::epilogue || tile.a.scaling == Scaling::block_1x128 ||
                        tile.a.scaling == Scaling::block_1x32;
    return of_fp8 && tile.b.storage == Storage::packed_nvfp4_bf16;
}

/// Combinations of fields that mean something; any other fails to compile. src/plan/legality.cpp gives reasons for what
/// else a tile must be.
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
