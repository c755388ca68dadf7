// Writes the data that follow the values in packed tiles: scale bytes, windows, and the factors of rows. It serves
// MXFP4 weights that are read in place. A block has the 64 rows of a row of tiles, four lanes per row.
//
// Blocks of zeros do not count, whatever their scales (docs/numerics.md). This changes nothing if a row's scales are
// close and a block with the largest scale has a nonzero value. Then the reference is the largest scale, no block can
// make the row wide, and 0 stays 0. So only one block of a row's values is read. All of them are read only if the row
// would be wide or that block is zeros.
#pragma once

#include "hopper/pack/pack_tiles.h"

namespace tilewright::hopper {

// Lanes per row. Each lane has every fourth word of the row's scales.
inline constexpr int scale_lanes = 4;
inline constexpr int rows_of_warp = warp_threads / scale_lanes;
static_assert(quantize_warps * rows_of_warp == packed_rows);
inline constexpr u32 uncounted_scales = 0xFFFF'FFFFU;

struct ScalesShared {
    int tops[packed_rows];  // as in PackShared
};
static_assert(sizeof(ScalesShared) == scales_shared_head);

/// The 64 rows of a block. The four scales of each 128 k-elements are a word in shared memory.
struct ScaleRows {
    int group = 0;
    int row_tile = 0;
    u32* staged = nullptr;
    int pitch = 0;  // words

    TILEWRIGHT_DEVICE u32* words(int row) const { return staged + row * pitch; }
    TILEWRIGHT_DEVICE PackRow at(const PackArguments& a, int row) const {
        const int in_group = row_tile * packed_rows + row;
        return {.codes = a.codes + group * a.code_group_stride + in_group * a.code_row_stride,
                .scales = a.scales + group * a.scale_group_stride + in_group * a.scale_row_stride,
                .exists = in_group < a.n,
                .staged = reinterpret_cast<u8*>(words(row))};
    }
};

TILEWRIGHT_DEVICE u32 load_word(const u32* from) { return load_staged(reinterpret_cast<const u8*>(from)); }

/// The four scales of 128 k-elements; `left` scales of the row remain. Scales after the row's last one repeat the
/// word's first scale.
template <PackSpec spec>
TILEWRIGHT_DEVICE u32 load_four_scales(const PackArguments& a, const u8* from, int left) {
    if constexpr (spec.vectors) return load_global(reinterpret_cast<const u32*>(from));
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < pack_blocks; ++i) {
        word |= u32(load_global(from + (i < left ? i : 0) * a.scale_column_stride)) << i * 8;
    }
    return word;
}

/// By a warp, for all its rows together, so that many loads are in flight.
template <PackSpec spec>
TILEWRIGHT_DEVICE void stage_scales(const PackArguments& a, const ScaleRows& rows, int first_row) {
    const PackRow first = rows.at(a, first_row);
    const int existing = a.n - (rows.row_tile * packed_rows + first_row), columns = ceil_div(a.k, pack_block);
    for (int k_block = lane_index(); k_block < ceil_div(a.k, packed_k); k_block += warp_threads) {
        const u8* const from = scales_at<spec>(a, first, k_block * pack_blocks);
        u32 words[rows_of_warp];
#pragma unroll
        for (int i = 0; i < rows_of_warp; ++i) {
            words[i] = uncounted_scales;
            if (i >= existing) continue;
            words[i] = load_four_scales<spec>(a, from + i * a.scale_row_stride, columns - k_block * pack_blocks);
        }
#pragma unroll
        for (int i = 0; i < rows_of_warp; ++i) store_shared(rows.words(first_row + i)[k_block], words[i]);
    }
    sync_warp();
}

/// The findings of a row's lanes together. The lower half has the largest scale's code if all scales are numbers,
/// otherwise 1 more. The upper half has 255 minus the smallest code.
template <bool all_numbers>
TILEWRIGHT_DEVICE u32 range_of(const u32* words, int k_blocks) {
    constexpr u32 bytes = 0x00FF'00FFU;
    u32 largest = 0, smallest = bytes;
    const auto include = [&](u32 two) {
        largest = larger_halves(largest, all_numbers ? two : (two + 0x0001'0001U) & bytes);
        smallest = smaller_halves(smallest, two);
    };
    for (int i = lane_index() % scale_lanes; i < k_blocks; i += scale_lanes) {
        const u32 four = load_word(words + i);
        include(four & bytes);
        include(four >> 8 & bytes);
    }
    const u32 below = bytes - smallest;
    u32 range = larger_halves((largest & 0xFFFFU) | below << 16, largest >> 16 | (below & ~0xFFFFU));
#pragma unroll
    for (int step = 1; step < scale_lanes; step *= 2) {
        range = larger_halves(range, u32(from_lane(int(range), lane_index() ^ step)));
    }
    return range;
}

/// Judges a row, by its lanes. NaN does not count. It is rare, so that it is only looked for among the largest codes.
TILEWRIGHT_DEVICE JudgedRow judge_staged(const u32* words, int k_blocks) {
    u32 range = range_of<true>(words, k_blocks) + 1;
    const bool nan = (range & 0xFFFFU) > ue8m0_nan;
    if (ballot(nan) != 0) range = range_of<false>(words, k_blocks);
    JudgedRow judged;
    judged.largest = int(range & 0xFFFFU);
    judged.smallest = ue8m0_nan - int(range >> 16);
    judged.highest = nan ? ue8m0_nan : 0;
    return judged;
}

/// The column of a block whose scale is the largest: the last of the blocks that the row's lanes find first.
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

TILEWRIGHT_DEVICE PackBlock load_codes(const PackRow& row, int column) {
    return load_block<PackSpec{.vectors = true}>(row.codes + column * 16, 16);
}

/// Sets the scales of blocks that are zeros, or after the last block, to a value that does not count.
TILEWRIGHT_DEVICE void discount_zeros(const PackArguments& a, const PackRow& row, u32* words) {
    const int columns = ceil_div(a.k, pack_block);
    for (int i = lane_index() % scale_lanes; i < ceil_div(a.k, packed_k); i += scale_lanes) {
        PackBlock codes[pack_blocks];
#pragma unroll
        for (int block = 0; block < pack_blocks; ++block) {
            codes[block] = load_codes(row, min(i * pack_blocks + block, columns - 1));
        }
        u32 uncounted = 0;
#pragma unroll
        for (int block = 0; block < pack_blocks; ++block) {
            const bool counts = codes[block].any() && i * pack_blocks + block < columns;
            uncounted |= counts ? 0 : 0xFFU << block * 8;
        }
        store_shared(words[i], load_word(words + i) | uncounted);
    }
}

/// Judges a row, by four lanes; the other lanes of the warp judge other rows.
TILEWRIGHT_DEVICE JudgedRow judge_scales(const PackArguments& a, const PackRow& row, u32* words) {
    const int k_blocks = ceil_div(a.k, packed_k);
    const JudgedRow judged = judge_staged(words, k_blocks);
    const int column = column_of_largest(words, k_blocks, judged);
    const bool settled =
        !row.exists || judged.empty() || (!judged.wide(fp8_exponent_range) && load_codes(row, column).any());
    if (ballot(!settled) == 0) return judged;
    if (!settled) discount_zeros(a, row, words);
    sync_warp();
    JudgedRow counted = judge_staged(words, k_blocks);
    counted.highest = judged.highest;
    return counted;
}

/// One lane per row.
template <PackSpec spec>
TILEWRIGHT_DEVICE void store_judged(const PackArguments& a, const ScaleRows& rows, int row, const JudgedRow& judged,
                                    ScalesShared& shared) {
    const bool wide = judged.wide(fp8_exponent_range);
    store_shared(shared.tops[row], wide ? wide_top : judged.top());
    const i64 tile = i64(rows.group) * ceil_div(a.n, packed_rows) + rows.row_tile;
    u32* const to = reinterpret_cast<u32*>(a.out + a.rows_at + (tile * packed_rows + row) * 8);
    if (rows.at(a, row).exists) {
        store_row<spec>(to, judged, wide, false);
    } else {
        store_global(reinterpret_cast<u64*>(to), u64{0});
    }
}

/// A lane's part of all tiles of a block: a row and the row eight below, which are adjacent in a tile.
struct TileRows {
    const u32* words[2];
    int tops[2];
    u32 wide[2];  // one bit per lane

    TILEWRIGHT_DEVICE TileRows(const ScaleRows& rows, const ScalesShared& shared) {
        const int first = lane_index() / 8 * pack_strip_rows + lane_index() % 8;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            words[i] = rows.words(first + 8 * i);
            tops[i] = load_shared(shared.tops[first + 8 * i]);
            wide[i] = ballot(tops[i] == wide_top);
        }
    }
    TILEWRIGHT_DEVICE bool any_wide() const { return (wide[0] | wide[1]) != 0; }
};

/// The place of PackedWindows in a tile.
inline constexpr int pack_head_at = packed_rows * pack_blocks;

/// Writes a tile without wide rows, by a warp. Exponents of windows that no row has are not written.
template <PackSpec spec>
TILEWRIGHT_DEVICE void write_tile(const TileRows& rows, int k_block, u8* to) {
    u32 bytes[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) bytes[i] = relative_bytes<spec>(load_word(rows.words[i] + k_block), rows.tops[i]);
    store_global(reinterpret_cast<u64*>(to) + lane_index(), u64(bytes[0]) | u64(bytes[1]) << 32);
    u16* const exponents = reinterpret_cast<u16*>(to + pack_head_at + formats::windows_head_bytes);
    store_global(exponents + lane_index(), u16(fp8_top_exponent * 0x0101));
    if (lane_index() == 0) store_global(reinterpret_cast<IntQuad*>(to + pack_head_at), IntQuad{{1, 0, 0, 0}});
}

/// The same for a row that may be wide. Returns its number of windows.
template <PackSpec spec>
TILEWRIGHT_DEVICE int write_row(u32 scales, int top, u8* scales_to, u8* exponents_to) {
    const bool wide = top == wide_top;
    PackWindows windows;
    const u32 bytes = wide ? windowed_bytes(scales, windows) : relative_bytes<spec>(scales, top);
    store_global(reinterpret_cast<u32*>(scales_to), bytes);
#pragma unroll
    for (int i = 0; i < pack_blocks; ++i) {
        store_global(exponents_to + i * packed_rows, window_exponent(windows, wide, i));
    }
    return windows.count;
}

template <PackSpec spec>
TILEWRIGHT_DEVICE void write_windowed_tile(const TileRows& rows, int k_block, u8* to) {
    int most = 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int place = 2 * lane_index() + i;
        most = max(most, write_row<spec>(load_word(rows.words[i] + k_block), rows.tops[i], to + place * pack_blocks,
                                         to + pack_head_at + formats::windows_head_bytes + place));
    }
    sync_warp();
    most = int(largest_in_warp(u32(most)));
    const IntQuad head{{most, 0, int(rows.wide[0]), int(rows.wide[1])}};
    if (lane_index() == 0) store_global(reinterpret_cast<IntQuad*>(to + pack_head_at), head);
}

/// Writes the tiles of a block, by its warps in turn.
template <PackSpec spec>
TILEWRIGHT_DEVICE void write_tiles(const PackArguments& a, const ScaleRows& rows, const ScalesShared& shared) {
    const TileRows of_lane(rows, shared);
    const auto at = [&](int k_block) {
        return packed_tile_index(a.n, a.k, rows.group, rows.row_tile, k_block) * a.tile_bytes;
    };
    const i64 step = (at(1) - at(0)) * quantize_warps;
    u8* to = a.out + a.tiles_at + at(warp_index());
    for (int k_block = warp_index(); k_block < ceil_div(a.k, packed_k); k_block += quantize_warps) {
        if (of_lane.any_wide()) {
            write_windowed_tile<spec>(of_lane, k_block, to);
        } else {
            write_tile<spec>(of_lane, k_block, to);
        }
        to += step;
    }
}

template <PackSpec spec>
__global__ void __launch_bounds__(quantize_threads, 4) pack_scales(const __grid_constant__ PackArguments a) {
    auto& shared = known_address(shared_memory<ScalesShared>());
    const int row_tiles = ceil_div(a.n, packed_rows);
    const ScaleRows rows{.group = block_index() / row_tiles,
                         .row_tile = block_index() % row_tiles,
                         .staged = reinterpret_cast<u32*>(&shared + 1),
                         .pitch = scales_pitch(ceil_div(a.k, packed_k))};
    const int first_row = warp_index() * rows_of_warp, row = first_row + lane_index() / scale_lanes;
    stage_scales<spec>(a, rows, first_row);
    const JudgedRow judged = judge_scales(a, rows.at(a, row), rows.words(row));
    if (lane_index() % scale_lanes == 0) store_judged<spec>(a, rows, row, judged, shared);
    sync_block();
    write_tiles<spec>(a, rows, shared);
}

}  // namespace tilewright::hopper
