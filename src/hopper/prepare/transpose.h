// Transposes quantized values. With power-of-two scales, each square of 128 x 128 gets one scale, and values are
// shifted to it. If scales stay in place (a K-major copy of an operand), values are moved unchanged.
#pragma once

#include "hopper/quantize/copy.h"

namespace tilewright::hopper {

/// Loads 16 values of each of the lane's tokens, as words.
TILEWRIGHT_DEVICE void load_codes(const TransposeArguments& arguments, const TokenTile& tile, bool vectors,
                                  Codes& codes) {
    const int feature = tile.feature + TokenTile::lane_feature();
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        const int token = TokenTile::lane_token() + j;
        const i64 first = tile.group * arguments.codes.group_stride +
                          i64(tile.token + token) * arguments.codes.token_stride +
                          feature * arguments.codes.feature_stride;
        const u8* const from = static_cast<const u8*>(arguments.codes.data) + first;
        const bool exists = token < tile.tokens && feature < arguments.grid.features;
        if (vectors && feature + lane_features <= arguments.grid.features) {
            const IntQuad quad = exists ? load_global(reinterpret_cast<const IntQuad*>(from)) : IntQuad{{0, 0, 0, 0}};
#pragma unroll
            for (int i = 0; i < 4; ++i) codes[j][i] = u32(quad.values[i]);
        } else {
#pragma unroll
            for (int i = 0; i < lane_features; ++i) {
                const bool is_there = exists && feature + i < arguments.grid.features;
                const u32 code = is_there ? load_global(from + i * arguments.codes.feature_stride) : 0U;
                codes[j][i / 4] = i % 4 == 0 ? code : codes[j][i / 4] | code << i % 4 * 8;
            }
        }
    }
}

/// The scales of the lane's tokens in the tile's 128 features; 1 for tokens that do not exist.
template <TransposeSpec spec>
TILEWRIGHT_DEVICE void load_scales(const TransposeArguments& arguments, const TokenTile& tile, float (&scales)[4]) {
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        const int token = TokenTile::lane_token() + j;
        scales[j] = 1;
        if (token >= tile.tokens) continue;
        const i64 index = scale_index(arguments.scales, 0, tile.token + token, tile.feature / quantize_block);
        if constexpr (spec.ue8m0) {
            scales[j] = formats::decode_ue8m0(load_global(static_cast<const u8*>(arguments.scales.data) + index));
        } else {
            scales[j] = load_global(static_cast<const float*>(arguments.scales.data) + index);
        }
    }
}

/// The largest scale of a token that has a nonzero value; 1 if no token has one. Together.
TILEWRIGHT_DEVICE float square_scale(const Codes& codes, const float (&scales)[4], QuantizeShared& shared) {
    float largest = 0;
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        const u32 any = (codes[j][0] | codes[j][1] | codes[j][2] | codes[j][3]) & 0x7F7F'7F7FU;
        if (any != 0 && scales[j] > largest) largest = scales[j];  // NaN is not larger
    }
    const float scale = reduce_tile(bits_of(largest), shared);
    return scale == 0 ? 1.0F : scale;
}

/// Four values times `ratio`, which is 1 for most tokens of most squares.
template <ValueFormat storage>
TILEWRIGHT_DEVICE u32 shift_codes(u32 codes, float ratio) {
    if (ratio == 1) return codes;
    float numbers[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const u32 pair = codes >> half * 16 & 0xFFFFU;
        const u32 numbers_16 = storage == ValueFormat::e4m3 ? f16_from_e4m3(pair) : f16_from_e5m2(pair);
        numbers[2 * half] = from_f16(u16(numbers_16)) * ratio;
        numbers[2 * half + 1] = from_f16(u16(numbers_16 >> 16)) * ratio;
    }
    return mend<storage>(encode<storage>(numbers), numbers);
}

/// Stores the squares' scales: one per square, or one per feature of the square.
template <TransposeSpec spec>
TILEWRIGHT_DEVICE void store_scales(const TransposeArguments& arguments, const TokenTile& tile, float scale) {
    constexpr CopySpec stored{.ue8m0 = spec.stores_ue8m0};
    const ScaleMatrix& to = arguments.to.scales;
    const int feature = thread_index(), square = tile.column / quantize_block;
    if constexpr (spec.squares) {
        if (feature > 0) return;
        store_scale<stored>(to, scale_index(to, 0, square, tile.feature / quantize_block), scale);
    } else {
        if (feature >= quantize_block || tile.feature + feature >= arguments.grid.features) return;
        store_scale<stored>(to, scale_index(to, 0, square, tile.feature + feature), scale);
    }
}

template <TransposeSpec spec>
TILEWRIGHT_DEVICE void shift_to_squares(const TransposeArguments& arguments, const TokenTile& tile, Codes& codes,
                                        QuantizeShared& shared) {
    float scales[lane_tokens];
    load_scales<spec>(arguments, tile, scales);
    const float scale = square_scale(codes, scales, shared);
    store_scales<spec>(arguments, tile, scale);
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        const float ratio = scales[j] / scale;
#pragma unroll
        for (int quad = 0; quad < lane_features / 4; ++quad) {
            codes[j][quad] = shift_codes<spec.storage>(codes[j][quad], ratio);
        }
    }
}

template <TransposeSpec spec>
__global__ void __launch_bounds__(quantize_threads, blocks_per_sm(spec))
    transpose_codes(const __grid_constant__ TransposeArguments arguments) {
    constexpr Quantizer q{.grouped = spec.grouped, .vectors = spec.vectors};
    auto& shared = shared_memory<QuantizeShared>();
    const TokenTile tile = token_tile<q>(arguments.grid, shared.tile);
    if (tile.tokens <= 0 || tile.column >= arguments.to.columns) return;
    Codes codes;
    // Values that are only moved have any strides, and go to aligned memory.
    const bool aligned = (arguments.codes.group_stride | arguments.codes.token_stride) % lane_features == 0;
    load_codes(arguments, tile, spec.shifted ? spec.vectors : aligned, codes);
    if constexpr (spec.shifted) shift_to_squares<spec>(arguments, tile, codes, shared);
    constexpr CopySpec copy{.transposed = true};
    store_columns<q, copy>(arguments.to, tile, arguments.grid.features, codes, shared);
}

}  // namespace tilewright::hopper
