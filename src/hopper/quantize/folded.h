// h times an operand's factors per token, per feature, or both.
#pragma once

#include "hopper/quantize/load.h"
#include "hopper/quantize/shared.h"

namespace tilewright::hopper {

template <Quantizer q, CopySpec copy>
struct FoldedNumbers {
    Numbers<q>& h;
    float tokens[lane_tokens];
    float features[lane_features];

    TILEWRIGHT_DEVICE float at(int j, int i) const {
        float number = h.at(j, i);
        if constexpr (copy.token_factors) number *= tokens[j];
        if constexpr (copy.feature_factors) number *= features[i];
        return number;
    }
};

/// Each lane loads the factor of the token that it owns, for all 8 lanes that have the token. By a warp together.
TILEWRIGHT_DEVICE void load_token_factors(const FoldFactors& factors, const TokenTile& tile, float (&to)[lane_tokens]) {
    const int token = TokenTile::lane_token() + own_token();
    const i64 index = (tile.token + token) * factors.token_stride;
    const float own = token < tile.tokens ? load_global(factors.tokens + index) : 1.0F;
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) to[j] = from_lane(own, owner_of(j));
}

/// Each thread loads the factor of one feature for all threads. Together.
TILEWRIGHT_DEVICE void load_feature_factors(const FoldFactors& factors, const TokenTile& tile, int features,
                                            float (&to)[lane_features], FeatureScales& shared) {
    sync_block();
    if (const int own = thread_index(); own < quantize_block) {
        const int feature = tile.feature + own;
        const i64 index = tile.group * factors.feature_group_stride + feature * factors.feature_stride;
        const float factor = feature < features ? load_global(factors.features + index) : 1.0F;
        store_shared(shared.factors[feature_place(own)], factor);
    }
    sync_block();
#pragma unroll
    for (int quad = 0; quad < lane_features / 4; ++quad) {
        const Quad four = load_quad(shared.factors[lane_place() + quad * 4]);
#pragma unroll
        for (int i = 0; i < 4; ++i) to[quad * 4 + i] = four.values[i];
    }
}

/// h with all factors of the operand. If h is packed, registers hold the factors; otherwise h itself is multiplied.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE auto fold(Numbers<q>& h, const FoldFactors& factors, const TokenTile& tile, int features,
                            QuantizeShared& shared) {
    FoldedNumbers<q, copy> folded{.h = h, .tokens = {}, .features = {}};
    if constexpr (copy.token_factors) load_token_factors(factors, tile, folded.tokens);
    if constexpr (copy.feature_factors) {
        load_feature_factors(factors, tile, features, folded.features, shared.features);
    }
    if constexpr (is_multiplied(q, copy)) {
#pragma unroll
        for (int j = 0; j < lane_tokens; ++j) {
#pragma unroll
            for (int i = 0; i < lane_features; ++i) h.held[j][i] = __builtin_bit_cast(u32, folded.at(j, i));
        }
        return FoldedNumbers<q, without_factors(copy)>{.h = h, .tokens = {}, .features = {}};
    } else {
        return folded;
    }
}

}  // namespace tilewright::hopper
