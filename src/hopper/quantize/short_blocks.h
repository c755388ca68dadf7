// The quantizers of MXFP8, MXFP4 and NVFP4, whose scales are shared by 32 or 16 elements of k. A lane has 16 elements
// in each of a few rows, so that a block belongs to one lane or two. The kernels need no shared memory and wait only
// for the loads. A warp has 512 elements of each row, whose values and scales it writes as whole sectors.
//
// NVFP4's tensor scale is measured first (`measure` in quantize.h) and finished by finish_tensor_scales.
#pragma once

#include "hopper/quantize/quantize.h"
#include "hopper/quantize/short_scales.h"

namespace tilewright::hopper {

constexpr Quantizer source_of(const BlockSpec& spec) { return {.source = spec.source, .vectors = spec.vectors}; }

/// 16 elements of a row as they are in memory, and their quantized values.
template <BlockSpec spec>
using ShortRun = u32[Numbers<source_of(spec)>::words];
template <BlockSpec spec>
using ShortCodes = u32[lane_features / (is_fp4(spec) ? 8 : 4)];

/// The place of the lane's first element.
struct ShortPlace {
    int group;
    int row;
    int k;
};

template <BlockSpec spec>
TILEWRIGHT_DEVICE ShortPlace short_place(const BlockArguments& a) {
    const int strip = block_index() / a.grid.feature_tiles;
    return {.group = strip / a.row_tiles,
            .row = strip % a.row_tiles * short_tile_rows(spec.source) + warp_index() * short_rows(spec.source),
            .k = block_index() % a.grid.feature_tiles * short_tile_k + lane_index() * lane_features};
}

template <BlockSpec spec>
TILEWRIGHT_DEVICE float number_at(const ShortRun<spec>& run, int i) {
    if constexpr (spec.source == Number::f32) return from_bits(run[i]);
    return half<source_of(spec)>(run[i / 2], i % 2);
}

/// The larger value of the block's lanes. Together.
template <BlockSpec spec, class Larger>
TILEWRIGHT_DEVICE u32 larger_of_block(u32 peak, Larger larger_of) {
    if constexpr (block_length(spec.format) == lane_features) return peak;
    return larger_of(peak, u32(from_lane(int(peak), lane_index() ^ 1)));
}

/// The bits of the block's largest magnitude, infinity and NaN included. Together.
template <BlockSpec spec>
TILEWRIGHT_DEVICE u32 block_peak(const ShortRun<spec>& run) {
    if constexpr (spec.source == Number::f32) {
        float peak = 0;
#pragma unroll
        for (const u32 bits : run) peak = larger(peak, magnitude(from_bits(bits)));
        return larger_of_block<spec>(bits_of(peak), [](u32 a, u32 b) { return max(a, b); });
    } else {
        u32 pairs = 0;
#pragma unroll
        for (const u32 pair : run) pairs = larger_halves(pairs, pair & 0x7FFF'7FFFU);
        pairs = larger_of_block<spec>(pairs, [](u32 a, u32 b) { return larger_halves(a, b); });
        return bits_of(half<source_of(spec)>(max(pairs & 0xFFFFU, pairs >> 16), 0));
    }
}

/// The same for finite numbers only. Together.
template <BlockSpec spec>
TILEWRIGHT_DEVICE u32 finite_block_peak(const ShortRun<spec>& run) {
    float peak = 0;
#pragma unroll
    for (int i = 0; i < lane_features; ++i) peak = include<true>(peak, number_at<spec>(run, i));
    return larger_of_block<spec>(bits_of(peak), [](u32 a, u32 b) { return max(a, b); });
}

/// Encodes e4m3 and e5m2. Together.
template <BlockSpec spec>
TILEWRIGHT_DEVICE u32 encode_fp8(const ShortRun<spec>& run, ShortCodes<spec>& codes) {
    constexpr ValueFormat storage = spec.format == BlockFormat::mxfp8_e4m3 ? ValueFormat::e4m3 : ValueFormat::e5m2;
    u32 peak = block_peak<spec>(run);
    const bool all_finite = peak < infinity_bits;
    const bool some_infinite = ballot(!all_finite) != 0;
    if (some_infinite) peak = finite_block_peak<spec>(run);
    const BlockScale scale = mx_scale<spec>(peak);
#pragma unroll
    for (int quad = 0; quad < lane_features / 4; ++quad) {
        float numbers[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) numbers[i] = number_at<spec>(run, quad * 4 + i) * scale.inverse;
        codes[quad] = encode<storage>(numbers);
        if (!some_infinite) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) numbers[i] = number_at<spec>(run, quad * 4 + i);
        codes[quad] = mend<storage>(codes[quad], numbers);
    }
    return scale.code;
}

/// A number divided by its block's scale, times 2^-14. `shifted` includes that factor.
template <BlockSpec spec>
TILEWRIGHT_DEVICE float shifted_quotient(float number, const BlockScale& shifted) {
    constexpr bool is_short = spec.source != Number::f32;
    if constexpr (divides_exactly(spec)) {
        const float quotient = number * shifted.inverse;
        return spec.source == Number::bf16 ? quotient : keep_inexact(quotient);
    }
    return keep_inexact(is_short ? divide_short(number, shifted.by) : divide_exactly(number, shifted.by));
}

/// Encodes e2m1, which has no NaN. A block with NaN or infinity gets the largest code for all numbers and NaN as its
/// scale. Together.
template <BlockSpec spec>
TILEWRIGHT_DEVICE u32 encode_fp4(const ShortRun<spec>& run, const TensorScale& of_tensor, ShortCodes<spec>& codes) {
    constexpr u32 largest_codes = 0x7777'7777, nan = spec.format == BlockFormat::nvfp4 ? ue4m3_nan : ue8m0_nan;
    const u32 peak = block_peak<spec>(run);
    const bool all_finite = peak < infinity_bits;
    BlockScale scale = block_scale<spec>(all_finite ? peak : 0, of_tensor);
    scale.inverse *= e2m1_shift;
    scale.by.lift *= e2m1_shift;
#pragma unroll
    for (int word = 0; word < lane_features / 8; ++word) {
        float numbers[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) numbers[i] = shifted_quotient<spec>(number_at<spec>(run, word * 8 + i), scale);
        codes[word] = all_finite ? encode_e2m1(numbers) : largest_codes;
    }
    return all_finite ? scale.code : nan;
}

/// Stores the bytes that pairs of rows share, code by code.
template <BlockSpec spec>
TILEWRIGHT_DEVICE void store_pairs_of_rows(const BlockArguments& a, const ShortPlace& place,
                                           const ShortCodes<spec>& first, const ShortCodes<spec>& second) {
    const CopyArguments& to = a.grid.rows;
#pragma unroll
    for (int i = 0; i < lane_features; ++i) {
        if (place.k + i >= a.grid.features) continue;
        const i64 index = place.group * to.group_stride + place.row + i64(place.k + i) * to.feature_stride;
        const int shift = i % 8 * 4;
        store_global(to.codes + index / 2, u8((first[i / 8] >> shift & 15U) | (second[i / 8] >> shift & 15U) << 4));
    }
}

template <BlockSpec spec>
TILEWRIGHT_DEVICE void store_run(const BlockArguments& a, const ShortPlace& place, const ShortCodes<spec>& codes) {
    const CopyArguments& to = a.grid.rows;
    const i64 index =
        place.group * to.group_stride + i64(place.row) * to.token_stride + i64(place.k) * to.feature_stride;
    const int count = a.grid.features - place.k;
    if constexpr (!is_fp4(spec)) {
        const IntQuad quad{{int(codes[0]), int(codes[1]), int(codes[2]), int(codes[3])}};
        if constexpr (spec.vectors) {
            store_global(reinterpret_cast<IntQuad*>(to.codes + index), quad);
        } else {
            store_each(to.codes + index, to.feature_stride, quad, count);
        }
    } else if constexpr (spec.vectors) {
        store_global(reinterpret_cast<u64*>(to.codes + index / 2), u64(codes[0]) | u64(codes[1]) << 32);
    } else {
#pragma unroll
        for (int i = 0; i < lane_features / 2; ++i) {
            if (2 * i < count) store_global(to.codes + index / 2 + i, u8(codes[i / 4] >> i % 4 * 8));
        }
    }
}

template <BlockSpec spec>
TILEWRIGHT_DEVICE void store_codes(const BlockArguments& a, ShortPlace place,
                                   const ShortCodes<spec> (&codes)[short_rows(spec.source)]) {
#pragma unroll
    for (int j = 0; j < short_rows(spec.source); ++j, ++place.row) {
        if (place.row >= a.grid.tokens || place.k >= a.grid.features) continue;
        if (is_fp4(spec) && !spec.vectors && a.pairs_of_rows) {
            if constexpr (is_fp4(spec)) {
                if (j % 2 == 0) store_pairs_of_rows<spec>(a, place, codes[j], codes[j + 1]);
            }
        } else {
            store_run<spec>(a, place, codes[j]);
        }
    }
}

/// Called by the first of the lanes that have the block.
template <BlockSpec spec>
TILEWRIGHT_DEVICE void store_block_scale(const BlockArguments& a, const ShortPlace& place, u32 code) {
    constexpr int length = block_length(spec.format);
    if (lane_index() % (length / lane_features) != 0 || place.k >= a.grid.features) return;
    const ScaleMatrix& scales = a.grid.rows.scales;
    store_global(static_cast<u8*>(scales.data) + scale_index(scales, place.group, place.row, place.k / length),
                 u8(code));
}

/// Loads the lane's features of one token of x, in the way that the matrix allows.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_token(const QuantizeArguments& arguments, int group, int token, int feature,
                                  u32 (&to)[Numbers<q>::words]) {
    if constexpr (!q.vectors) return load_any<q>(arguments, group, token, feature, to);
    load_words<q>(arguments.x, row_of(arguments.x, group, token) + feature, to);
}

template <BlockSpec spec>
__global__ void __launch_bounds__(quantize_threads, blocks_per_sm(spec))
    quantize_blocks(const __grid_constant__ BlockArguments a) {
    constexpr int rows = short_rows(spec.source);
    const ShortPlace place = short_place<spec>(a);
    if (place.row >= a.grid.tokens) return;
    ShortRun<spec> runs[rows];
#pragma unroll
    for (int j = 0; j < rows; ++j) {
        if (place.row + j < a.grid.tokens && place.k < a.grid.features) {
            load_token<source_of(spec)>(a.grid, place.group, place.row + j, place.k, runs[j]);
        } else {
#pragma unroll
            for (u32& word : runs[j]) word = 0;
        }
    }
    TensorScale of_tensor{};
    if constexpr (spec.format == BlockFormat::nvfp4) {
        const float* const scales = static_cast<const float*>(a.tensor_scales.data);
        of_tensor = tensor_scale<spec>(load_global(scales + place.group * a.tensor_scales.group_stride));
    }
    ShortCodes<spec> codes[rows];
#pragma unroll
    for (int j = 0; j < rows; ++j) {
        u32 scale;
        if constexpr (is_fp4(spec)) {
            scale = encode_fp4<spec>(runs[j], of_tensor, codes[j]);
        } else {
            scale = encode_fp8<spec>(runs[j], codes[j]);
        }
        if (place.row + j >= a.grid.tokens) continue;
        store_block_scale<spec>(a, {.group = place.group, .row = place.row + j, .k = place.k}, scale);
    }
    store_codes<spec>(a, place, codes);
}

/// Converts the thread's magnitude of a tensor to its scale.
template <BlockSpec spec>
__global__ void __launch_bounds__(quantize_threads, 2)
    finish_tensor_scales(const __grid_constant__ MeasuredScales all) {
    u32* const scale = own_scale(all);
    if (scale != nullptr) store_global(scale, bits_of(tensor_scale_of<spec>(from_bits(*scale))));
}

}  // namespace tilewright::hopper
