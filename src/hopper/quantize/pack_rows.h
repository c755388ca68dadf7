// Packing FP4 weights, the first of three kernels: a warp judges a row. What follows from its scales and from which of
// its blocks are zeros is written where the packed weights have it; the host gets a byte of each row, from which it
// knows how long the packed weights are.
#pragma once

#include "base/math.h"
#include "hopper/ptx/ptx_numbers.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/packed_order.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

// As src/formats/row_exponents.h and packed_layout.h have them; tests/emulator/pack_weights_test.cpp compares.
inline constexpr int pack_rows = packed_order_rows;
inline constexpr int pack_k = packed_order_k;
inline constexpr int pack_block = 32;  // codes that a thread reads at a time
inline constexpr int pack_blocks = pack_k / pack_block;
inline constexpr int pack_range_fp8 = 11;
inline constexpr int pack_range_bf16 = 120;
inline constexpr int pack_top_exponent = 6;
inline constexpr int pack_no_exponent = -1000;
inline constexpr u32 pack_wide = 1;
inline constexpr u32 pack_kept = 2;
inline constexpr u8 judged_kept = 128;    // of a judgement's byte; the others: the windows of a wide row, for bf16 1
inline constexpr int nvfp4_columns = 16;  // of k that an NVFP4 scale serves
inline constexpr int ue8m0_bias = 127, ue8m0_nan = 255;

/// 32 codes of a row, fewer at its end, with zeros behind them.
struct PackBlock {
    u32 words[4] = {};
    TILEWRIGHT_DEVICE bool any() const { return ((words[0] | words[1] | words[2] | words[3]) & 0x7777'7777U) != 0; }
};

template <PackSpec spec>
TILEWRIGHT_DEVICE PackBlock load_block(const PackArguments& a, int group, int row, int column) {
    PackBlock block;
    const u8* const from = a.codes + group * a.code_group_stride + row * a.code_row_stride + i64(column) * 16;
    const int bytes = min(pack_block, a.k - column * pack_block) / 2;
    if (spec.vectors && bytes == 16) {
        const IntQuad quad = load_global(reinterpret_cast<const IntQuad*>(from));
#pragma unroll
        for (int i = 0; i < 4; ++i) block.words[i] = u32(quad.values[i]);
        return block;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        if (i < bytes) block.words[i / 4] |= u32(load_global(from + i)) << i % 4 * 8;
    }
    return block;
}

TILEWRIGHT_DEVICE int load_scale(const PackArguments& a, int group, int row, int column) {
    return load_global(a.scales + group * a.scale_group_stride + row * a.scale_row_stride +
                       column * a.scale_column_stride);
}

/// The exponent of an MXFP4 block; none of one that does not count.
TILEWRIGHT_DEVICE int exponent_of(int scale, bool any) {
    return any && scale != ue8m0_nan ? scale - ue8m0_bias : pack_no_exponent;
}

/// The windows of the four blocks of 128 of k, from the largest exponent down.
struct PackWindows {
    int count = 1;
    int top[pack_blocks] = {pack_no_exponent, pack_no_exponent, pack_no_exponent, pack_no_exponent};
    int of_block[pack_blocks] = {};
};

TILEWRIGHT_DEVICE PackWindows find_windows(const int (&exponents)[pack_blocks]) {
    PackWindows windows;
    bool done[pack_blocks] = {};
#pragma unroll
    for (int window = 0; window < pack_blocks; ++window) {
        int top = pack_no_exponent;
#pragma unroll
        for (int i = 0; i < pack_blocks; ++i) top = done[i] ? top : max(top, exponents[i]);
        if (top == pack_no_exponent) break;
        windows.count = window + 1;
        windows.top[window] = top;
#pragma unroll
        for (int i = 0; i < pack_blocks; ++i) {
            if (done[i] || exponents[i] == pack_no_exponent || top - exponents[i] > pack_range_fp8) continue;
            windows.of_block[i] = window;
            done[i] = true;
        }
    }
    return windows;
}

TILEWRIGHT_DEVICE int largest_in_warp(int value) {
#pragma unroll
    for (int step = 1; step < warp_threads; step *= 2) value = max(value, from_lane(value, lane_index() ^ step));
    return value;
}

struct JudgedRow {
    int largest = pack_no_exponent;
    int smallest = -pack_no_exponent;
    bool nan = false;
    bool zero_scales_differ = false;

    TILEWRIGHT_DEVICE void include(int scale, bool any) {
        const int exponent = exponent_of(scale, any);
        nan = nan || scale == ue8m0_nan;
        zero_scales_differ = zero_scales_differ || (!any && scale != ue8m0_bias);
        if (exponent == pack_no_exponent) return;
        largest = max(largest, exponent);
        smallest = min(smallest, exponent);
    }
    TILEWRIGHT_DEVICE bool empty() const { return largest < smallest; }
    TILEWRIGHT_DEVICE bool wide(int range) const { return !empty() && largest - smallest > range; }
};

/// By a warp together, a lane for each block.
template <PackSpec spec>
TILEWRIGHT_DEVICE JudgedRow judge_row(const PackArguments& a, int group, int row) {
    JudgedRow judged;
    constexpr int at_once = 4;  // blocks of a lane whose loads are under way
    for (int first = lane_index(); first < ceil_div(a.k, pack_block); first += at_once * warp_threads) {
        PackBlock blocks[at_once];
        int scales[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const int column = first + i * warp_threads;
            scales[i] = ue8m0_bias;  // with zeros nothing
            if (column >= ceil_div(a.k, pack_block)) continue;
            blocks[i] = load_block<spec>(a, group, row, column);
            scales[i] = load_scale(a, group, row, column);
        }
#pragma unroll
        for (int i = 0; i < at_once; ++i) judged.include(scales[i], blocks[i].any());
    }
    judged.largest = largest_in_warp(judged.largest);
    judged.smallest = -largest_in_warp(-judged.smallest);
    judged.nan = ballot(judged.nan) != 0;
    judged.zero_scales_differ = ballot(judged.zero_scales_differ) != 0;
    return judged;
}

/// The most windows that 128 of k of a row have. By a warp together, a lane for each 128.
template <PackSpec spec>
TILEWRIGHT_DEVICE int most_windows_of(const PackArguments& a, int group, int row) {
    int most = 1;
    for (int k_block = lane_index(); k_block < ceil_div(a.k, pack_k); k_block += warp_threads) {
        int exponents[pack_blocks];
#pragma unroll
        for (int i = 0; i < pack_blocks; ++i) {
            const int column = k_block * pack_blocks + i;
            exponents[i] = pack_no_exponent;
            if (column >= ceil_div(a.k, pack_block)) continue;
            exponents[i] =
                exponent_of(load_scale(a, group, row, column), load_block<spec>(a, group, row, column).any());
        }
        most = max(most, find_windows(exponents).count);
    }
    return largest_in_warp(most);
}

/// What a tile has for a scale of NVFP4.
TILEWRIGHT_DEVICE int packed_nvfp4_scale(int ue4m3_code) {
    const int number = ue4m3_code & 0x7F;
    return number == 0x7F ? 0xFF : number;
}

/// The bits of 2^exponent, subnormal numbers included.
TILEWRIGHT_DEVICE u32 power_bits(int exponent) {
    return exponent >= -126 ? u32(exponent + 127) << 23 : 1U << (exponent + 149);
}

/// PackedRow, as two words.
template <PackSpec spec>
TILEWRIGHT_DEVICE void store_row(u32* to, const JudgedRow& judged, bool wide, bool kept) {
    const int reference = judged.empty() || wide ? 0 : judged.largest;
    u32 factor = power_bits(spec.for_fp8 ? reference - pack_top_exponent : reference);
    if (wide) factor = power_bits(0);
    if (judged.nan) factor = 0x7FC0'0000U;
    if (wide && spec.for_fp8) factor |= 0x8000'0000U;
    store_global(to, factor);
    store_global(to + 1, (u32(reference) & 0xFFFFU) | ((wide ? pack_wide : 0U) | (kept ? pack_kept : 0U)) << 16);
}

/// The flags of a row of NVFP4, which is kept if a scale is not what its tile has. By a warp together.
TILEWRIGHT_DEVICE u32 judge_nvfp4_row(const PackArguments& a, int group, int row) {
    bool differs = false;
    for (int column = lane_index(); column < ceil_div(a.k, nvfp4_columns); column += warp_threads) {
        const int scale = load_scale(a, group, row, column);
        differs = differs || packed_nvfp4_scale(scale) != scale;
    }
    const bool kept = ballot(differs) != 0;
    if (lane_index() == 0) store_global(a.judgements + i64(group) * a.n + row, u8(kept ? judged_kept : 0));
    return kept ? pack_kept : 0U;
}

/// Rows of the packed weights, those behind n of the last tile with them; without `out` only what the host reads.
template <PackSpec spec>
__global__ void __launch_bounds__(quantize_threads, 2) judge_rows(const __grid_constant__ PackArguments a) {
    const int padded = ceil_div(a.n, pack_rows) * pack_rows;
    const i64 index = i64(block_index()) * quantize_warps + warp_index();
    if (index >= i64(a.groups) * padded) return;
    const int group = int(index / padded), row = int(index % padded);
    u32* const to = a.out == nullptr ? nullptr : reinterpret_cast<u32*>(a.out + a.rows_at + index * 8);
    if (row >= a.n || !spec.mxfp4) {
        u32 flags = 0;
        if constexpr (!spec.mxfp4) flags = row < a.n ? judge_nvfp4_row(a, group, row) : 0U;
        if (to == nullptr || lane_index() != 0) return;
        store_global(to, row < a.n ? power_bits(0) : 0U);
        store_global(to + 1, flags << 16);
        return;
    }
    const JudgedRow judged = judge_row<spec>(a, group, row);
    const bool wide = judged.wide(spec.for_fp8 ? pack_range_fp8 : pack_range_bf16);
    const bool kept = wide || judged.nan || judged.zero_scales_differ;
    int windows = wide ? 1 : 0;
    if (wide && spec.for_fp8) windows = most_windows_of<spec>(a, group, row);
    if (lane_index() != 0) return;
    if (to != nullptr) store_row<spec>(to, judged, wide, kept);
    store_global(a.judgements + i64(group) * a.n + row, u8(windows | (kept ? judged_kept : 0)));
}

}  // namespace tilewright::hopper
