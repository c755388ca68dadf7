// One operand of a tile: its scales, and the quantized values of a lane.
#pragma once

#include "hopper/quantize/reduce.h"

namespace tilewright::hopper {

/// Quantized values of a lane: 16 features for each of 4 tokens, four values per word.
using Codes = u32[lane_tokens][lane_features / 4];

constexpr bool is_by_token(ScaledBy scaled) { return scaled == ScaledBy::token || scaled == ScaledBy::token_block; }
constexpr bool is_by_feature(ScaledBy scaled) {
    return scaled == ScaledBy::feature || scaled == ScaledBy::feature_block;
}

/// The place of the tile's first token in the operand.
template <CopySpec copy>
TILEWRIGHT_DEVICE int first_token(const TokenTile& tile) {
    return copy.transposed ? tile.column : tile.token;
}

/// The index of the scale of a token or a feature of the tile. Blocks of 128 begin with the tile.
template <CopySpec copy>
TILEWRIGHT_DEVICE i64 scale_index(const CopyArguments& to, const TokenTile& tile, int token, int feature) {
    const bool squares = copy.scaled == ScaledBy::square;
    const int tokens = first_token<copy>(tile), features = tile.feature;
    const int t = copy.scaled == ScaledBy::feature_block || squares ? tokens / quantize_block : tokens + token;
    const int f = copy.scaled == ScaledBy::token_block || squares ? features / quantize_block : features + feature;
    return scale_index(to.scales, tile.group, is_by_feature(copy.scaled) && is_measured(copy) ? 0 : t,
                       copy.scaled == ScaledBy::token ? 0 : f);
}

/// The scales by which a warp divides.
struct LaneScales {
    // The tile's scale, or the scale of the lane's own token. Scales of features are in shared memory.
    float own;
    // All numbers of the warp are finite, and all its scales are regular (`is_regular`).
    bool regular;
};

/// Computes a scale of tokens, or of the tile, in the lanes that own it.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE float find_own_scale(const CopyArguments& to, const TokenTile& tile,
                                       const Peaks<q, copy, true>& peaks, QuantizeShared& shared) {
    if constexpr (copy.scaled == ScaledBy::square) {
        const float scale = scale_of<copy>(reduce_tile(peaks, shared));
        if (thread_index() == 0) store_scale<copy>(to.scales, scale_index<copy>(to, tile, 0, 0), scale);
        return scale;
    } else if constexpr (copy.scaled == ScaledBy::all) {
        return load_global(static_cast<const float*>(to.scales.data) + tile.group * to.scales.group_stride);
    } else {
        const int token = TokenTile::lane_token() + own_token();
        const i64 index = scale_index<copy>(to, tile, token, 0);
        if constexpr (copy.scaled == ScaledBy::token_block) {
            const float scale = scale_of<copy>(reduce_tokens(peaks));
            if (lane_index() % 2 == 0 && token < tile.tokens) store_scale<copy>(to.scales, index, scale);
            return scale;
        }
        return token < tile.tokens ? load_global(static_cast<const float*>(to.scales.data) + index) : 1.0F;
    }
}

/// Computes scales of tokens, or of the tile. Together.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE LaneScales find_token_scales(const CopyArguments& to, const TokenTile& tile,
                                               const FoldedNumbers<q, copy>& numbers, QuantizeShared& shared) {
    Peaks<q, copy, true> peaks;
    const bool all_finite = finite_peaks(numbers, peaks);
    const float own = find_own_scale(to, tile, peaks, shared);
    const bool all_regular = copy.powers || ballot(!is_regular<copy, are_short<q, copy>>(own)) == 0;
    return {.own = own, .regular = all_finite && all_regular};
}

/// Stores the scale of a feature; called by the feature's thread.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void share_feature_scale(float scale, FeatureScales& shared) {
    const int place = feature_place(thread_index());
    const Inverse inverse = inverse_of<copy>(scale);
    store_shared(shared.scales[place], scale);
    store_shared(shared.high[place], inverse.high);
    if constexpr (copy.powers) return;
    store_shared(shared.low[place], inverse.low);
    const u32 irregular = ballot(!is_regular<copy, are_short<q, copy>>(scale));
    const int warp = warp_index();
    if (lane_index() == 0) store_shared(shared.irregular.values[warp], int(irregular));
}

/// Computes scales of features into shared memory. Together.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE LaneScales find_feature_scales(const CopyArguments& to, const TokenTile& tile, int features,
                                                 const FoldedNumbers<q, copy>& numbers, QuantizeShared& shared) {
    Peaks<q, copy, false> peaks;
    bool regular = finite_peaks(numbers, peaks);
    float scale = 1;
    const int feature = thread_index();
    const bool exists = feature < quantize_block && tile.feature + feature < features;
    const i64 index = scale_index<copy>(to, tile, 0, feature);
    if constexpr (copy.scaled == ScaledBy::feature_block) {
        scale = scale_of<copy>(reduce_features(peaks, shared));
        if (exists) store_scale<copy>(to.scales, index, scale);
    } else {
        if (exists) scale = load_global(static_cast<const float*>(to.scales.data) + index);
        sync_block();
    }
    if (feature < quantize_block) share_feature_scale<q, copy>(scale, shared.features);
    sync_block();
    if constexpr (!copy.powers) {
        const IntQuad of_warps = load_shared(shared.features.irregular);
        const int(&w)[4] = of_warps.values;
        regular = regular && (w[0] | w[1] | w[2] | w[3]) == 0;
    }
    return {.own = 1, .regular = regular};
}

/// Encodes four features of a token; `inverse(i)` is the inverse of the i-th feature's scale.
template <Quantizer q, CopySpec copy, class Find>
TILEWRIGHT_DEVICE u32 encode_four(const FoldedNumbers<q, copy>& numbers, int j, int quad, Find inverse) {
    float four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = divide<copy>(numbers.at(j, quad * 4 + i), inverse(i));
    return encode<copy.storage>(four);
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void encode_by_features(const FoldedNumbers<q, copy>& numbers, const FeatureScales& shared,
                                          Codes& codes) {
    const int place = lane_place();
#pragma unroll
    for (int quad = 0; quad < lane_features / 4; ++quad) {
        const Quad high = load_quad(shared.high[place + quad * 4]);
        Quad low{};
        if constexpr (!copy.powers) low = load_quad(shared.low[place + quad * 4]);
        const auto inverse = [&](int i) { return Inverse{.high = high.values[i], .low = low.values[i]}; };
#pragma unroll
        for (int j = 0; j < lane_tokens; ++j) codes[j][quad] = encode_four(numbers, j, quad, inverse);
    }
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void encode_by_tokens(const FoldedNumbers<q, copy>& numbers, float own_scale, Codes& codes) {
    const Inverse own = inverse_of<copy>(own_scale);
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        Inverse by = own;
        if constexpr (is_by_token(copy.scaled)) {
            by.high = from_lane(own.high, owner_of(j));
            if constexpr (!copy.powers) by.low = from_lane(own.low, owner_of(j));
        }
#pragma unroll
        for (int quad = 0; quad < lane_features / 4; ++quad) {
            codes[j][quad] = encode_four(numbers, j, quad, [&](int) { return by; });
        }
    }
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void encode_one(const FoldedNumbers<q, copy>& numbers, int j, int i, float scale, Codes& codes) {
    const float number = numbers.at(j, i), quotient = divide_any<copy>(number, scale);
    const u32 code = mend_one<copy.storage>(encode_one<copy.storage>(quotient), number) << i % 4 * 8;
    codes[j][i / 4] = i % 4 == 0 ? code : codes[j][i / 4] | code;
}

/// Handles any scales and numbers, with few registers and many instructions. By a warp together.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void encode_any(const FoldedNumbers<q, copy>& numbers, float own_scale, const FeatureScales& shared,
                                  Codes& codes) {
    constexpr bool by_feature = is_by_feature(copy.scaled);
#pragma unroll
    for (int outer = 0; outer < (by_feature ? lane_features : lane_tokens); ++outer) {
        float scale = own_scale;
        if constexpr (by_feature) scale = load_shared(shared.scales[lane_place() + outer]);
        if constexpr (is_by_token(copy.scaled)) scale = from_lane(own_scale, owner_of(outer));
        pin(scale);  // one after another
#pragma unroll
        for (int inner = 0; inner < (by_feature ? lane_tokens : lane_features); ++inner) {
            encode_one(numbers, by_feature ? inner : outer, by_feature ? outer : inner, scale, codes);
        }
    }
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void encode_lane(const FoldedNumbers<q, copy>& numbers, const LaneScales& scales,
                                   const QuantizeShared& shared, Codes& codes) {
    if (!scales.regular) {
        encode_any(numbers, scales.own, shared.features, codes);
    } else if constexpr (is_by_feature(copy.scaled)) {
        encode_by_features(numbers, shared.features, codes);
    } else {
        encode_by_tokens(numbers, scales.own, codes);
    }
}

}  // namespace tilewright::hopper
