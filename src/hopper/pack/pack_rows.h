// Packs FP4 weights, a warp's work on a row. It reads values and scales once and writes them to shared memory, with
// values in the order of packed weights. It also judges the row: it computes the row's data from its scales and its
// zero blocks, and writes them to the packed weights. The host gets one byte per row, from which it computes the length
// of the packed weights.
#pragma once

#include "base/math.h"
#include "hopper/pack/pack_words.h"
#include "hopper/pack/packed_order.h"
#include "hopper/quantize/arguments.h"

namespace tilewright::hopper {

using formats::bf16_exponent_range, formats::fp8_exponent_range, formats::fp8_top_exponent;
using formats::no_exponent, formats::no_window, formats::packed_row_kept, formats::packed_row_wide;

inline constexpr int pack_block = 32;  // values that a lane reads at a time
inline constexpr int pack_blocks = packed_k / pack_block;

/// k-blocks of rows that are in shared memory at a time.
struct PackPart {
    int begin = 0;
    int k_blocks = 0;
};

/// A row of the weights, and its place in shared memory.
struct PackRow {
    const u8* codes = nullptr;
    const u8* scales = nullptr;
    bool exists = false;  // not after n
    u8* staged = nullptr;
};

/// Bytes of scales per 128 k-elements.
template <PackSpec spec>
inline constexpr int pack_scale_bytes = spec.mxfp4 ? pack_blocks : 2 * pack_blocks;

/// The place of a row's scales in shared memory, after the values. MXFP4 scales of blocks that do not count are NaN.
TILEWRIGHT_DEVICE u8* staged_scales(u8* row, PackPart part) { return row + part.k_blocks * (packed_k / 2); }

TILEWRIGHT_DEVICE u32 load_staged(const u8* from) { return u32(load_shared(reinterpret_cast<const int&>(*from))); }

template <PackSpec spec>
TILEWRIGHT_DEVICE PackBlock load_block(const u8* from, int bytes) {
    PackBlock block;
    if constexpr (spec.vectors) {
        const IntQuad quad = load_global(reinterpret_cast<const IntQuad*>(from));
#pragma unroll
        for (int i = 0; i < 4; ++i) block.words[i] = u32(quad.values[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            if (i < bytes) block.words[i / 4] |= u32(load_global(from + i)) << i % 4 * 8;
        }
    }
    return block;
}

/// The form of an NVFP4 scale in a tile.
TILEWRIGHT_DEVICE int packed_nvfp4_scale(int ue4m3_code) {
    const int number = ue4m3_code & 0x7F;
    return number == ue4m3_nan ? 0xFF : number;
}

/// The windows of the four blocks of 128 k-elements, in descending order of the largest exponent.
struct PackWindows {
    int count = 1;
    int top[pack_blocks] = {no_exponent, no_exponent, no_exponent, no_exponent};
    int of_block[pack_blocks] = {};
};

TILEWRIGHT_DEVICE PackWindows find_windows(const int (&exponents)[pack_blocks]) {
    PackWindows windows;
    bool done[pack_blocks] = {};
#pragma unroll
    for (int window = 0; window < pack_blocks; ++window) {
        int top = no_exponent;
#pragma unroll
        for (int i = 0; i < pack_blocks; ++i) top = done[i] ? top : max(top, exponents[i]);
        if (top == no_exponent) break;
        windows.count = window + 1;
        windows.top[window] = top;
#pragma unroll
        for (int i = 0; i < pack_blocks; ++i) {
            if (done[i] || exponents[i] == no_exponent || top - exponents[i] > fp8_exponent_range) continue;
            windows.of_block[i] = window;
            done[i] = true;
        }
    }
    return windows;
}

/// The exponents of four staged scales of MXFP4.
TILEWRIGHT_DEVICE void exponents_of(u32 scales, int (&exponents)[pack_blocks]) {
#pragma unroll
    for (int i = 0; i < pack_blocks; ++i) {
        const int scale = int(scales >> i * 8 & 0xFFU);
        exponents[i] = scale == ue8m0_nan ? no_exponent : scale - ue8m0_bias;
    }
}

/// A lane's findings about a row, then the warp's.
struct JudgedRow {
    // 1 more than the largest code of the scales that count; 0: no scale counts.
    int largest = 0;
    int smallest = ue8m0_nan;  // The smallest code of the scales that count.
    // The largest code of all scales; NaN is above any number.
    int highest = 0;
    // Bits that differ from the tile: scales of zeros that are not 1, and NVFP4 scales unlike their form in the tile.
    int differing = 0;
    int windows = 1;  // The largest number of windows per 128 k-elements.

    TILEWRIGHT_DEVICE bool empty() const { return largest == 0; }
    TILEWRIGHT_DEVICE bool nan() const { return highest == ue8m0_nan; }
    TILEWRIGHT_DEVICE int top() const { return empty() ? ue8m0_bias : largest - 1; }
    TILEWRIGHT_DEVICE bool wide(int range) const { return !empty() && largest - 1 - smallest > range; }
};

/// The place of a block's scale in a row; NVFP4: of the first of two. A column is 32 values.
template <PackSpec spec>
TILEWRIGHT_DEVICE const u8* scales_at(const PackArguments& a, const PackRow& row, int column) {
    return row.scales + (spec.mxfp4 ? 1 : 2) * column * a.scale_column_stride;
}

/// The largest value over all lanes, in each half of a word.
TILEWRIGHT_DEVICE u32 largest_in_warp(u32 halves) {
#pragma unroll
    for (int step = 1; step < warp_threads; step *= 2) {
        halves = larger_halves(halves, u32(from_lane(int(halves), lane_index() ^ step)));
    }
    return halves;
}

/// Combines the lanes' findings.
TILEWRIGHT_DEVICE void join_range(JudgedRow& judged) {
    const u32 range = largest_in_warp(u32(judged.largest) | u32(ue8m0_nan - judged.smallest) << 16);
    judged.largest = int(range & 0xFFFFU);
    judged.smallest = ue8m0_nan - int(range >> 16);
}

/// The scale of a block, unchanged; NVFP4: two scales.
template <PackSpec spec>
TILEWRIGHT_DEVICE int load_scales(const PackArguments& a, const u8* from, int column) {
    int scales = load_global(from);
    if constexpr (spec.mxfp4) return scales;
    if (2 * column + 1 < ceil_div(a.k, block_length(BlockFormat::nvfp4)))
        scales |= load_global(from + a.scale_column_stride) << 8;
    return scales;
}

/// Writes a block and its scales to the row's place in shared memory.
template <PackSpec spec>
TILEWRIGHT_DEVICE void stage_block(const PackBlock& codes, int scales, u8* to, u8* scales_to, JudgedRow& judged) {
    store_shared(reinterpret_cast<Quad&>(*to), __builtin_bit_cast(Quad, packed_words<spec>(codes)));
    if constexpr (spec.mxfp4) {
        const bool any = codes.any();
        const int counting = any ? scales : ue8m0_nan;
        judged.largest = max(judged.largest, (counting + 1) & 0xFF);
        judged.smallest = min(judged.smallest, counting);
        judged.highest = max(judged.highest, scales);
        judged.differing |= any ? 0 : scales ^ ue8m0_bias;
        store_shared(*scales_to, u8(counting));
    } else {
        const int packed = packed_nvfp4_scale(scales & 0xFF) | packed_nvfp4_scale(scales >> 8) << 8;
        judged.differing |= packed ^ scales;
        store_shared(scales_to[0], u8(packed));
        store_shared(scales_to[1], u8(packed >> 8));
    }
}

/// By a warp together, one lane per block. Zeros follow the weights.
template <PackSpec spec>
TILEWRIGHT_DEVICE void stage_row(const PackArguments& a, const PackRow& row, PackPart part, JudgedRow& judged) {
    // Blocks of a lane with loads in flight.
    constexpr int at_once = spec.vectors ? 8 : 2;
    constexpr int scale_bytes = pack_scale_bytes<spec> / pack_blocks;
    const int blocks = part.k_blocks * pack_blocks, first_column = part.begin * pack_blocks;
    const int columns = row.exists ? min(blocks, ceil_div(a.k, pack_block) - first_column) : 0;
    const i64 scale_step = warp_threads * (spec.mxfp4 ? 1 : 2) * a.scale_column_stride;
    const u8* codes_from = row.codes + i64(first_column + lane_index()) * 16;
    const u8* scales_from = scales_at<spec>(a, row, first_column + lane_index());
    u8* codes_to = row.staged + lane_index() * 16;
    u8* scales_to = staged_scales(row.staged, part) + lane_index() * scale_bytes;
    for (int first = lane_index(); first < blocks; first += at_once * warp_threads) {
        PackBlock codes[at_once];
        int scales[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const int column = first_column + first + i * warp_threads;
            scales[i] = spec.mxfp4 ? ue8m0_bias : 0;  // zero blocks do not count
            if (i * warp_threads >= columns - first) continue;
            codes[i] =
                load_block<spec>(codes_from + i * warp_threads * 16, min(pack_block, a.k - column * pack_block) / 2);
            scales[i] = load_scales<spec>(a, scales_from + i * scale_step, column);
        }
        codes_from += at_once * warp_threads * 16;
        scales_from += at_once * scale_step;
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            if (i * warp_threads >= blocks - first) continue;
            stage_block<spec>(codes[i], scales[i], codes_to + i * warp_threads * 16,
                              scales_to + i * warp_threads * scale_bytes, judged);
        }
        codes_to += at_once * warp_threads * 16;
        scales_to += at_once * warp_threads * scale_bytes;
    }
}

/// The largest number of windows per 128 k-elements of a row's part. By a warp together, one lane per 128 k-elements.
TILEWRIGHT_DEVICE int windows_of_row(u8* row, PackPart part) {
    int most = 1;
    sync_warp();
    for (int k_block = lane_index(); k_block < part.k_blocks; k_block += warp_threads) {
        int exponents[pack_blocks];
        exponents_of(load_staged(staged_scales(row, part) + k_block * pack_blocks), exponents);
        most = max(most, find_windows(exponents).count);
    }
    sync_warp();
    return int(largest_in_warp(u32(most)));
}

/// Moves a row to shared memory, part after part; the last part stays there. By a warp together.
template <PackSpec spec>
TILEWRIGHT_DEVICE JudgedRow judge_row(const PackArguments& a, const PackRow& row) {
    JudgedRow judged;
    const int k_blocks = ceil_div(a.k, packed_k);
    for (int begin = 0; begin < k_blocks; begin += a.part) {
        const PackPart part{.begin = begin, .k_blocks = min(a.part, k_blocks - begin)};
        stage_row<spec>(a, row, part, judged);
        if constexpr (!spec.mxfp4) continue;
        join_range(judged);
        // A row with more than one window is wide. Earlier parts that were not wide have one window.
        if (spec.for_fp8 && judged.wide(fp8_exponent_range)) {
            judged.windows = max(judged.windows, windows_of_row(row.staged, part));
        }
    }
    if (ballot(judged.nan()) != 0) judged.highest = ue8m0_nan;
    judged.differing = int(ballot(judged.differing != 0));
    return judged;
}

/// The bits of 2^exponent, subnormal numbers included.
TILEWRIGHT_DEVICE u32 power_bits(int exponent) {
    return exponent >= -126 ? u32(exponent + 127) << 23 : 1U << (exponent + 149);
}

/// Stores PackedRow, as two words, of a row that is not after n.
template <PackSpec spec>
TILEWRIGHT_DEVICE void store_row(u32* to, const JudgedRow& judged, bool wide, bool kept) {
    const int reference = wide || !spec.mxfp4 ? 0 : judged.top() - ue8m0_bias;
    u32 factor = power_bits(spec.mxfp4 && spec.for_fp8 ? reference - fp8_top_exponent : reference);
    if (wide) factor = power_bits(0);
    if (judged.nan()) factor = 0x7FC0'0000U;
    if (wide && spec.for_fp8) factor |= 0x8000'0000U;
    store_global(to, factor);
    store_global(to + 1, (u32(reference) & 0xFFFFU) | ((wide ? packed_row_wide : 0U) | (kept ? packed_row_kept : 0U))
                                                          << 16);
}

}  // namespace tilewright::hopper
