// Loads h into registers: x as it is in memory, or SwiGLU of it, or SwiGLU's gradient.
#pragma once

#include "hopper/quantize/activation.h"

namespace tilewright::hopper {

/// One number of h, from matrices of any strides and sizes.
template <Quantizer q>
TILEWRIGHT_DEVICE float load_feature(const QuantizeArguments& arguments, int group, int token, int feature) {
    const auto load = [&](const SourceMatrix& matrix, int column) {
        return load_number<q>(matrix.data, row_of(matrix, group, token) + column * matrix.feature_stride);
    };
    if constexpr (q.formula == Formula::x) {
        const i64 row = row_of_x(arguments, group, token);
        return load_number<q>(arguments.x.data, row + feature * arguments.x.feature_stride);
    }
    const int half = arguments.features / 2;
    const bool ups = q.interleaved ? feature % 2 != 0 : feature >= half;
    const bool is_gradient = q.formula == Formula::swiglu_gradient;
    const int own = !is_gradient ? feature : q.interleaved ? feature / 2 : ups ? feature - half : feature;
    const float gate = load(arguments.x, q.interleaved ? 2 * own : own);
    const float up = q.interleaved ? load(arguments.x, 2 * own + 1) : load(arguments.up, own);
    const formats::SwiGluRule rule{.alpha = arguments.alpha, .beta = arguments.beta, .limit = arguments.limit};
    const float factor = h_factor(arguments, token);
    if constexpr (!is_gradient) return formats::swiglu(gate, up, rule) * factor;
    const formats::SwiGluGradient both = formats::swiglu_gradient(gate, up, load(arguments.gradient, own), rule);
    return (ups ? both.up : both.gate) * factor;
}

/// Features of a token, from matrices of any strides and sizes; 0 for features that do not exist.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_any(const QuantizeArguments& arguments, int group, int token, int feature,
                                u32 (&to)[Numbers<q>::words]) {
#pragma unroll
    for (int i = 0; i < lane_features; ++i) {
        const bool exists = feature + i < arguments.features;
        if constexpr (holds_pairs(q)) {
            const i64 index = row_of_x(arguments, group, token) + (feature + i) * arguments.x.feature_stride;
            const u32 code = exists ? load_global(static_cast<const u16*>(arguments.x.data) + index) : 0U;
            to[i / 2] = i % 2 == 0 ? code : to[i / 2] | code << 16;
        } else {
            to[i] = exists ? __builtin_bit_cast(u32, load_feature<q>(arguments, group, token, feature + i)) : 0U;
        }
    }
}

/// Loads the lane's part of a tile with all of its 128 tokens and 128 features.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_whole(const QuantizeArguments& arguments, const TokenTile& tile, Numbers<q>& h) {
    const int token = tile.token + TokenTile::lane_token();
    i64 first = row_of(arguments.x, tile.group, token) + tile.feature + TokenTile::lane_feature();
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j, first += arguments.x.token_stride) {
        load_words<q>(arguments.x, first, h.held[j]);
    }
}

/// Whether the tile has the lane's j-th token and the lane's features.
TILEWRIGHT_DEVICE auto lane_has(const QuantizeArguments& arguments, const TokenTile& tile) {
    const int tokens = tile.feature + TokenTile::lane_feature() < arguments.features ? tile.tokens : 0;
    return [=](int j) { return TokenTile::lane_token() + j < tokens; };
}

/// Loads the lane's part of the tile; 0 for tokens and features that do not exist. Most tiles are whole, and their
/// loads need no predicates.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_tile(const QuantizeArguments& arguments, const TokenTile& tile, Numbers<q>& h) {
    const int token = TokenTile::lane_token(), feature = tile.feature + TokenTile::lane_feature();
    const auto has = lane_has(arguments, tile);
    const bool whole = tile.tokens == quantize_block && tile.feature + quantize_block <= arguments.features;
    if constexpr (q.formula != Formula::x && q.vectors) {
        return load_activated(arguments, tile.group, tile.token + token, feature, whole, has, h);
    }
    if constexpr (holds_pairs(q) && q.vectors) {
        if (whole && arguments.index == nullptr) return load_whole(arguments, tile, h);
    }
    i64 rows[lane_tokens] = {};  // An index is loaded for all tokens before the first number.
    if constexpr (q.vectors) {
#pragma unroll
        for (int j = 0; j < lane_tokens; ++j) {
            if (has(j)) rows[j] = row_of_x(arguments, tile.group, tile.token + token + j);
        }
    }
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        if (has(j)) {
            if constexpr (q.vectors) {
                load_words<q>(arguments.x, rows[j] + feature, h.held[j]);
            } else {
                load_any<q>(arguments, tile.group, tile.token + token + j, feature, h.held[j]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < Numbers<q>::words; ++i) h.held[j][i] = 0;
        }
    }
}

}  // namespace tilewright::hopper
