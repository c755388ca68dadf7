// h in registers: x as it is in memory, or SwiGLU of it, or SwiGLU's gradient; f32, 4 tokens x 16 features a lane.
#pragma once

#include "formats/swiglu.h"
#include "hopper/quantize/token_tile.h"

namespace tilewright::hopper {

/// One of two numbers of 16 bits.
template <Quantizer q>
TILEWRIGHT_DEVICE float half(u32 pair, int index) {
    const u16 code = u16(pair >> index * 16);
    return q.source == Number::bf16 ? from_bf16(code) : from_f16(code);
}

template <Quantizer q>
struct Numbers {
    static constexpr int words = is_packed(q) ? lane_features / 2 : lane_features;
    u32 held[lane_tokens][words];

    TILEWRIGHT_DEVICE float at(int j, int i) const {
        if constexpr (!is_packed(q)) return __builtin_bit_cast(float, held[j][i]);
        return half<q>(held[j][i / 2], i % 2);
    }
    /// What was made of the numbers before is made again after: kept, it would take registers.
    TILEWRIGHT_DEVICE void forget() {
#pragma unroll
        for (int i = 0; i < lane_tokens * words; ++i) pin(held[i / words][i % words]);
    }
};

template <Quantizer q>
TILEWRIGHT_DEVICE float load_number(const void* data, i64 index) {
    if constexpr (q.source == Number::f32) return load_global(static_cast<const float*>(data) + index);
    const u16 code = load_global(static_cast<const u16*>(data) + index);
    return q.source == Number::bf16 ? from_bf16(code) : from_f16(code);
}

/// The first of the numbers of a token.
TILEWRIGHT_DEVICE i64 row_of(const SourceMatrix& matrix, int group, int token) {
    return group * matrix.group_stride + token * matrix.token_stride;
}

/// 16 bytes at a time, as they are.
template <Quantizer q, int words>
TILEWRIGHT_DEVICE void load_words(const SourceMatrix& matrix, i64 first, u32 (&to)[words]) {
    constexpr int bytes = q.source == Number::f32 ? 4 : 2;
    const IntQuad* from = reinterpret_cast<const IntQuad*>(static_cast<const u8*>(matrix.data) + first * bytes);
#pragma unroll
    for (int i = 0; i < words; i += 4) {
        const IntQuad quad = load_global(from + i / 4);
#pragma unroll
        for (int j = 0; j < 4; ++j) to[i + j] = u32(quad.values[j]);
    }
}

/// As numbers.
template <Quantizer q, int count>
TILEWRIGHT_DEVICE void load_run(const SourceMatrix& matrix, i64 first, float (&to)[count]) {
    u32 words[q.source == Number::f32 ? count : count / 2];
    load_words<q>(matrix, first, words);
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const u16 code = u16(words[i / 2] >> i % 2 * 16);
        if constexpr (q.source == Number::f32) {
            to[i] = __builtin_bit_cast(float, words[i]);
        } else {
            to[i] = q.source == Number::bf16 ? from_bf16(code) : from_f16(code);
        }
    }
}

TILEWRIGHT_DEVICE formats::SwiGluRule rule_of(const QuantizeArguments& arguments) {
    return {arguments.alpha, arguments.beta, arguments.limit};
}

/// Features of a lane, whose number and half (SwiGLU) are multiples of 16.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_features(const QuantizeArguments& arguments, int group, int token, int feature,
                                     float (&h)[lane_features]) {
    const i64 row = row_of(arguments.x, group, token);
    if constexpr (q.formula == Formula::x) {
        load_run<q>(arguments.x, row + feature, h);
    } else if constexpr (q.formula == Formula::swiglu) {
        float x[2 * lane_features];
        if constexpr (q.interleaved) {
            load_run<q>(arguments.x, row + 2 * feature, x);
        } else {
            load_run<q>(arguments.x, row + feature, reinterpret_cast<float(&)[lane_features]>(x));
            load_run<q>(arguments.up, row_of(arguments.up, group, token) + feature,
                        reinterpret_cast<float(&)[lane_features]>(x[lane_features]));
        }
#pragma unroll
        for (int i = 0; i < lane_features; ++i) {
            h[i] = formats::swiglu(x[q.interleaved ? 2 * i : i], x[q.interleaved ? 2 * i + 1 : lane_features + i],
                                   rule_of(arguments));
        }
    } else {
        const i64 gradient_row = row_of(arguments.gradient, group, token);
        const int half = arguments.features / 2;
        const bool ups = !q.interleaved && feature >= half;
        const int first = q.interleaved ? feature / 2 : ups ? feature - half : feature;
        constexpr int count = q.interleaved ? lane_features / 2 : lane_features;
        float x[2 * count], gradient[count];
        load_run<q>(arguments.gradient, gradient_row + first, gradient);
        if constexpr (q.interleaved) {
            load_run<q>(arguments.x, row + feature, x);
        } else {
            load_run<q>(arguments.x, row + first, reinterpret_cast<float(&)[count]>(x));
            load_run<q>(arguments.up, row_of(arguments.up, group, token) + first,
                        reinterpret_cast<float(&)[count]>(x[count]));
        }
        if constexpr (q.interleaved) {
#pragma unroll
            for (int i = 0; i < count; ++i) {
                const formats::SwiGluGradient both =
                    formats::swiglu_gradient(x[2 * i], x[2 * i + 1], gradient[i], rule_of(arguments));
                h[2 * i] = both.gate;
                h[2 * i + 1] = both.up;
            }
        } else if (ups) {
#pragma unroll
            for (int i = 0; i < count; ++i) {
                h[i] = formats::up_gradient(x[i], x[count + i], gradient[i], rule_of(arguments));
            }
        } else {
#pragma unroll
            for (int i = 0; i < count; ++i) {
                h[i] = formats::gate_gradient(x[i], x[count + i], gradient[i], rule_of(arguments));
            }
        }
    }
}

/// One number of h, for matrices of any strides and sizes.
template <Quantizer q>
TILEWRIGHT_DEVICE float load_feature(const QuantizeArguments& arguments, int group, int token, int feature) {
    const auto load = [&](const SourceMatrix& matrix, int column) {
        return load_number<q>(matrix.data, row_of(matrix, group, token) + column * matrix.feature_stride);
    };
    if constexpr (q.formula == Formula::x) return load(arguments.x, feature);
    const int half = arguments.features / 2;
    const bool ups = q.interleaved ? feature % 2 != 0 : feature >= half;
    const bool is_gradient = q.formula == Formula::swiglu_gradient;
    const int own = !is_gradient ? feature : q.interleaved ? feature / 2 : ups ? feature - half : feature;
    const float gate = load(arguments.x, q.interleaved ? 2 * own : own);
    const float up = q.interleaved ? load(arguments.x, 2 * own + 1) : load(arguments.up, own);
    if constexpr (!is_gradient) return formats::swiglu(gate, up, rule_of(arguments));
    const formats::SwiGluGradient both =
        formats::swiglu_gradient(gate, up, load(arguments.gradient, own), rule_of(arguments));
    return ups ? both.up : both.gate;
}

/// Features of a token, for matrices of any strides and sizes; 0 where there is none.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_any(const QuantizeArguments& arguments, int group, int token, int feature,
                                u32 (&to)[Numbers<q>::words]) {
#pragma unroll
    for (int i = 0; i < lane_features; ++i) {
        const bool exists = feature + i < arguments.features;
        if constexpr (is_packed(q)) {
            const i64 index = row_of(arguments.x, group, token) + (feature + i) * arguments.x.feature_stride;
            const u32 code = exists ? load_global(static_cast<const u16*>(arguments.x.data) + index) : 0U;
            to[i / 2] = i % 2 == 0 ? code : to[i / 2] | code << 16;
        } else {
            to[i] = exists ? __builtin_bit_cast(u32, load_feature<q>(arguments, group, token, feature + i)) : 0U;
        }
    }
}

/// The lane's features of one token, by whichever way the matrix allows.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_token(const QuantizeArguments& arguments, int group, int token, int feature,
                                  u32 (&to)[Numbers<q>::words]) {
    if constexpr (!q.vectors) return load_any<q>(arguments, group, token, feature, to);
    if constexpr (q.formula == Formula::x) {
        return load_words<q>(arguments.x, row_of(arguments.x, group, token) + feature, to);
    } else {
        float numbers[lane_features];
        load_features<q>(arguments, group, token, feature, numbers);
#pragma unroll
        for (int i = 0; i < lane_features; ++i) to[i] = __builtin_bit_cast(u32, numbers[i]);
    }
}

/// The lane's part of a tile that has 128 tokens and 128 features, as it is.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_whole(const QuantizeArguments& arguments, const TokenTile& tile, Numbers<q>& h) {
    const int token = tile.token + TokenTile::lane_token();
    i64 first = row_of(arguments.x, tile.group, token) + tile.feature + TokenTile::lane_feature();
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j, first += arguments.x.token_stride) {
        load_words<q>(arguments.x, first, h.held[j]);
    }
}

/// The lane's part of the tile; 0 where there is no token or no feature.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_tile(const QuantizeArguments& arguments, const TokenTile& tile, Numbers<q>& h) {
    if constexpr (is_packed(q) && q.vectors) {  // most tiles: without predicates
        const bool whole = tile.tokens == quantize_block && tile.feature + quantize_block <= arguments.features;
        if (whole) return load_whole(arguments, tile, h);
    }
    const int feature = tile.feature + TokenTile::lane_feature();
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        const int token = TokenTile::lane_token() + j;
        if (token < tile.tokens && feature < arguments.features) {
            load_token<q>(arguments, tile.group, tile.token + token, feature, h.held[j]);
        } else {
#pragma unroll
            for (int i = 0; i < Numbers<q>::words; ++i) h.held[j][i] = 0;
        }
    }
}

}  // namespace tilewright::hopper
