// What packed tiles have behind their codes, of MXFP4 weights whose codes stay where they are: bytes of scales and
// windows, and the factors of rows. A block has the 64 rows of a row of tiles, four lanes each of them.
//
// Blocks of zeros do not count, whatever their scales (docs/numerics.md). Where a row's scales are close and a block
// with the largest of them has a code that is not zero, that changes nothing: the reference is the largest one, no
// block can make the row wide, and 0 stays 0. So a row's codes are read in one block, and in all only where the row
// would be wide or that block is zeros.
#pragma once

#include "hopper/quantize/pack_tiles.h"

namespace tilewright::hopper {

inline constexpr int scale_lanes = 4;  // that have a row, each every fourth word of its scales
inline constexpr int rows_of_warp = warp_threads / scale_lanes;
static_assert(quantize_warps * rows_of_warp == pack_rows);
inline constexpr u32 uncounted_scales = 0xFFFF'FFFFU;

struct ScalesShared {
    int tops[pack_rows];  // as PackShared has them
};
static_assert(sizeof(ScalesShared) == scales_shared_head);

/// The 64 rows of a block, with the four scales of each 128 of k as a word in shared memory.
struct ScaleRows {
    int group = 0;
    int row_tile = 0;
    u32* staged = nullptr;
    int pitch = 0;  // words

    TILEWRIGHT_DEVICE u32* words(int row) const { return staged + row * pitch; }
    TILEWRIGHT_DEVICE PackRow at(const PackArguments& a, int row) const {
        const int in_group = row_tile * pack_rows + row;
        return {.codes = a.codes + group * a.code_group_stride + in_group * a.code_row_stride,
                .scales = a.scales + group * a.scale_group_stride + in_group * a.scale_row_stride,
                .exists = in_group < a.n,
                .staged = reinterpret_cast<u8*>(words(row))};
    }
};

TILEWRIGHT_DEVICE u32 load_word(const u32* from) { return load_staged(reinterpret_cast<const u8*>(from)); }

/// The four scales of 128 of k. Behind the last block is the first one's again.
template <PackSpec spec>
TILEWRIGHT_DEVICE u32 load_four_scales(const PackArguments& a, const PackRow& row, int k_block) {
    if (!row.exists) return uncounted_scales;
    const u8* const from = scales_at<spec>(a, row, k_block * pack_blocks);
    if constexpr (spec.vectors) return load_global(reinterpret_cast<const u32*>(from));
    const int left = ceil_div(a.k, pack_block) - k_block * pack_blocks;
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < pack_blocks; ++i) {
        word |= u32(load_global(from + (i < left ? i : 0) * a.scale_column_stride)) << i * 8;
    }
    return word;
}

/// By a warp, for its rows together, so that many loads are under way.
template <PackSpec spec>
TILEWRIGHT_DEVICE void stage_scales(const PackArguments& a, const ScaleRows& rows, int first_row) {
    for (int k_block = lane_index(); k_block < ceil_div(a.k, pack_k); k_block += warp_threads) {
        u32 words[rows_of_warp];
#pragma unroll
        for (int i = 0; i < rows_of_warp; ++i) words[i] = load_four_scales<spec>(a, rows.at(a, first_row + i), k_block);
#pragma unroll
        for (int i = 0; i < rows_of_warp; ++i) store_shared(rows.words(first_row + i)[k_block], words[i]);
    }
    sync_warp();
}

/// Of scales, in halves of words.
struct ScaleRange {
    u32 largest = 0;  // 1 more than their codes; NaN does not count
    u32 smallest = 0x00FF'00FFU;
    u32 nan = 0;

    TILEWRIGHT_DEVICE void include(u32 four) {
        constexpr u32 bytes = 0x00FF'00FFU;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u32 two = four >> i * 8 & bytes, next = two + 0x0001'0001U;
            nan |= next & ~bytes;
            largest = larger_halves(largest, next & bytes);
            smallest = smaller_halves(smallest, two);
        }
    }
};

/// Every lane gets what the four lanes of its row have seen.
TILEWRIGHT_DEVICE JudgedRow judged_by_four(const ScaleRange& range) {
    u32 both = larger_halves(range.largest & 0xFFFFU, range.largest >> 16) |
               (ue8m0_nan - smaller_halves(range.smallest & 0xFFFFU, range.smallest >> 16)) << 16;
    u32 nan = range.nan;
#pragma unroll
    for (int step = 1; step < scale_lanes; step *= 2) {
        both = larger_halves(both, u32(from_lane(int(both), lane_index() ^ step)));
        nan |= u32(from_lane(int(nan), lane_index() ^ step));
    }
    JudgedRow judged;
    judged.largest = int(both & 0xFFFFU);
    judged.smallest = ue8m0_nan - int(both >> 16);
    judged.highest = nan != 0 ? ue8m0_nan : 0;
    return judged;
}

TILEWRIGHT_DEVICE JudgedRow judge_staged(const u32* words, int k_blocks) {
    ScaleRange range;
    for (int i = lane_index() % scale_lanes; i < k_blocks; i += scale_lanes) range.include(load_word(words + i));
    return judged_by_four(range);
}

/// A block of the row whose scale is the largest: the last of those that its lanes find first.
TILEWRIGHT_DEVICE int column_of_largest(const u32* words, int k_blocks, const JudgedRow& judged) {
    const u32 wanted = u32(judged.largest - 1) * 0x0101'0101U;
    int column = 0;
    for (int i = lane_index() % scale_lanes; i < k_blocks; i += scale_lanes) {
        const u32 equal = full_bytes(~(load_word(words + i) ^ wanted));
        if (equal == 0) continue;
        column = i * pack_blocks + lowest_bit(equal) / 8;
        break;
    }
    sync_warp();
#pragma unroll
    for (int step = 1; step < scale_lanes; step *= 2) column = max(column, from_lane(column, lane_index() ^ step));
    return column;
}

template <PackSpec spec>
TILEWRIGHT_DEVICE bool is_zeros(const PackRow& row, int column) {
    constexpr PackSpec whole{.vectors = true};
    return !load_block<whole>(row.codes + column * 16, 16).any();
}

/// The scales of blocks that are zeros, or behind the last, no longer count.
template <PackSpec spec>
TILEWRIGHT_DEVICE void discount_zeros(const PackArguments& a, const PackRow& row, u32* words) {
    const int columns = ceil_div(a.k, pack_block);
    for (int i = lane_index() % scale_lanes; i < ceil_div(a.k, pack_k); i += scale_lanes) {
        u32 uncounted = 0;
#pragma unroll
        for (int block = 0; block < pack_blocks; ++block) {
            const int column = i * pack_blocks + block;
            if (column >= columns || is_zeros<spec>(row, column)) uncounted |= 0xFFU << block * 8;
        }
        store_shared(words[i], load_word(words + i) | uncounted);
    }
}

/// A row, by four lanes; the others of the warp have others.
template <PackSpec spec>
TILEWRIGHT_DEVICE JudgedRow judge_scales(const PackArguments& a, const PackRow& row, u32* words) {
    const int k_blocks = ceil_div(a.k, pack_k);
    const JudgedRow judged = judge_staged(words, k_blocks);
    const int column = column_of_largest(words, k_blocks, judged);
    const bool settled =
        !row.exists || judged.empty() || (!judged.wide(pack_range_fp8) && !is_zeros<spec>(row, column));
    if (ballot(!settled) == 0) return judged;
    if (!settled) discount_zeros<spec>(a, row, words);
    sync_warp();
    JudgedRow counted = judge_staged(words, k_blocks);
    counted.highest = judged.highest;
    return counted;
}

/// By a lane for each row.
template <PackSpec spec>
TILEWRIGHT_DEVICE void store_judged(const PackArguments& a, const ScaleRows& rows, int row, const JudgedRow& judged,
                                    ScalesShared& shared) {
    const bool wide = judged.wide(pack_range_fp8);
    store_shared(shared.tops[row], wide ? wide_top : judged.top());
    const i64 tile = i64(rows.group) * ceil_div(a.n, pack_rows) + rows.row_tile;
    u32* const to = reinterpret_cast<u32*>(a.out + a.rows_at + (tile * pack_rows + row) * 8);
    if (rows.at(a, row).exists) {
        store_row<spec>(to, judged, wide, false);
    } else {
        store_global(reinterpret_cast<u64*>(to), u64{0});
    }
}

/// A tile, by a warp: a lane has a row and the one eight further, which are next to each other there. Exponents of
/// windows that no row of the tile has are not written.
template <PackSpec spec>
TILEWRIGHT_DEVICE void write_tile(const PackArguments& a, const ScaleRows& rows, int k_block,
                                  const ScalesShared& shared) {
    const int first = lane_index() / 8 * pack_strip_rows + lane_index() % 8;
    u8* const to = a.out + a.tiles_at + packed_tile_index(a.n, a.k, rows.group, rows.row_tile, k_block) * a.tile_bytes;
    u32 bytes[2], wide_rows[2];
    PackWindows windows[2];
    bool wide[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int top = load_shared(shared.tops[first + 8 * i]);
        const u32 scales = load_word(rows.words(first + 8 * i) + k_block);
        wide[i] = top == wide_top;
        wide_rows[i] = ballot(wide[i]);
        bytes[i] = relative_bytes<spec>(scales, top);
        if (wide[i]) {
            int exponents[pack_blocks];
            exponents_of(scales, exponents);
            windows[i] = find_windows(exponents);
            bytes[i] = split_bytes(windows[i], exponents);
        }
    }
    sync_warp();
    int most = 1;
    if ((wide_rows[0] | wide_rows[1]) != 0) {
        most = int(largest_in_warp(u32(max(windows[0].count, windows[1].count))));
    }
    store_global(reinterpret_cast<u64*>(to) + lane_index(), u64(bytes[0]) | u64(bytes[1]) << 32);
    u8* const head = to + pack_rows * pack_blocks;
    if (lane_index() == 0) {
        store_global(reinterpret_cast<IntQuad*>(head), IntQuad{{most, 0, int(wide_rows[0]), int(wide_rows[1])}});
    }
    u16* const exponents = reinterpret_cast<u16*>(head + pack_window_head);
    for (int window = 0; window < most; ++window) {
        const u32 upper = window_exponent(windows[0], wide[0], window),
                  lower = window_exponent(windows[1], wide[1], window);
        store_global(exponents + window * (pack_rows / 2) + lane_index(), u16(upper | lower << 8));
    }
}

template <PackSpec spec>
__global__ void __launch_bounds__(quantize_threads, 4) pack_scales(const __grid_constant__ PackArguments a) {
    auto& shared = known_address(shared_memory<ScalesShared>());
    const int row_tiles = ceil_div(a.n, pack_rows), k_blocks = ceil_div(a.k, pack_k);
    const ScaleRows rows{.group = block_index() / row_tiles,
                         .row_tile = block_index() % row_tiles,
                         .staged = reinterpret_cast<u32*>(&shared + 1),
                         .pitch = scales_pitch(k_blocks)};
    const int first_row = warp_index() * rows_of_warp, row = first_row + lane_index() / scale_lanes;
    stage_scales<spec>(a, rows, first_row);
    const JudgedRow judged = judge_scales<spec>(a, rows.at(a, row), rows.words(row));
    if (lane_index() % scale_lanes == 0) store_judged<spec>(a, rows, row, judged, shared);
    sync_block();
    for (int k_block = warp_index(); k_block < k_blocks; k_block += quantize_warps) {
        write_tile<spec>(a, rows, k_block, shared);
    }
}

}  // namespace tilewright::hopper
