// One operand of a tile: scales, codes, and the stores of both.
#pragma once

#include "hopper/quantize/peaks.h"

namespace tilewright::hopper {

/// Codes of a lane: for each of 4 tokens 16 features, four to a word.
using Codes = u32[lane_tokens][lane_features / 4];

/// Numbers of at most 11 significant bits are divided with fewer instructions.
template <Quantizer q, CopySpec copy>
inline constexpr bool are_short = is_packed(q) && !has_factors(copy);

constexpr bool is_by_token(ScaledBy scaled) { return scaled == ScaledBy::token || scaled == ScaledBy::token_block; }
constexpr bool is_by_feature(ScaledBy scaled) {
    return scaled == ScaledBy::feature || scaled == ScaledBy::feature_block;
}

/// The tile's first token where the operand has it.
template <CopySpec copy>
TILEWRIGHT_DEVICE int first_token(const TokenTile& tile) {
    return copy.transposed ? tile.column : tile.token;
}

/// Where the scale of a token or a feature of the tile is; blocks of 128 begin with the tile.
template <CopySpec copy>
TILEWRIGHT_DEVICE i64 scale_index(const CopyArguments& to, const TokenTile& tile, int token, int feature) {
    const bool squares = copy.scaled == ScaledBy::square;
    const int tokens = first_token<copy>(tile), features = tile.feature;
    const int t = copy.scaled == ScaledBy::feature_block || squares ? tokens / quantize_block : tokens + token;
    const int f = copy.scaled == ScaledBy::token_block || squares ? features / quantize_block : features + feature;
    return scale_index(to.scales, tile.group, is_by_feature(copy.scaled) && is_measured(copy) ? 0 : t,
                       copy.scaled == ScaledBy::token ? 0 : f);
}

/// The lane's scales of an operand: of its tokens, or the tile's (the first). Those of features are in shared memory.
struct LaneScales {
    float tokens[lane_tokens];
    bool all_finite;  // all numbers of the lane are
};

/// Scales of tokens, or of the tile, each in the lanes that have them.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void find_token_scales(const CopyArguments& to, const TokenTile& tile, const Folded<q, copy>& numbers,
                                         QuantizeShared& shared, LaneScales& scales) {
    float peaks[lane_tokens];
    scales.all_finite = finite_peaks<true>(numbers, peaks);
    if constexpr (copy.scaled == ScaledBy::square) {
        const float scale = scale_of<copy>(reduce_tile(peaks, shared));
        if (thread_index() == 0) store_scale<copy>(to.scales, scale_index<copy>(to, tile, 0, 0), scale);
        scales.tokens[0] = scale;
    } else if constexpr (copy.scaled == ScaledBy::all) {
        const float* scale = static_cast<const float*>(to.scales.data) + tile.group * to.scales.group_stride;
        scales.tokens[0] = load_global(scale);
    } else {
        if constexpr (copy.scaled == ScaledBy::token_block) reduce_tokens(peaks);
        i64 index = scale_index<copy>(to, tile, TokenTile::lane_token(), 0);
#pragma unroll
        for (int j = 0; j < lane_tokens; ++j, index += to.scales.token_stride) {
            const int token = TokenTile::lane_token() + j;
            float scale = 1;
            if constexpr (copy.scaled == ScaledBy::token_block) {
                scale = scale_of<copy>(peaks[j]);
                if (lane_index() % row_lanes == 0 && token < tile.tokens) store_scale<copy>(to.scales, index, scale);
            } else if (token < tile.tokens) {
                scale = load_global(static_cast<const float*>(to.scales.data) + index);
            }
            scales.tokens[j] = scale;
        }
    }
}

/// Scales of features, to shared memory. Together.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void find_feature_scales(const CopyArguments& to, const TokenTile& tile, int features,
                                           const Folded<q, copy>& numbers, QuantizeShared& shared, LaneScales& scales) {
    float peaks[lane_features];
    scales.all_finite = finite_peaks<false>(numbers, peaks);
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
    if (feature < quantize_block) {
        const Denominator by = denominator_of<copy, are_short<q, copy>>(scale);
        store_shared(shared.denominators[feature + feature / lane_features],
                     {{by.scale, by.inverse, by.rest, by.lift}});
    }
    sync_block();
}

/// Four features of a token; `denominator(i)` is that of the i-th.
template <Quantizer q, CopySpec copy, class Find>
TILEWRIGHT_DEVICE u32 encode_four(const Folded<q, copy>& numbers, int j, int quad, Find denominator) {
    float four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        four[i] = divide<copy, are_short<q, copy>>(numbers.at(j, quad * 4 + i), denominator(i));
    }
    return encode<copy.storage>(four);
}

/// The codes of infinity and NaN among four.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void mend_four(const Folded<q, copy>& numbers, int j, int quad, u32& codes) {
    float four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = numbers.at(j, quad * 4 + i);
    codes = mend<copy.storage>(codes, four);
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void encode_lane(const Folded<q, copy>& numbers, const LaneScales& scales,
                                   const QuantizeShared& shared, Codes& codes) {
    if constexpr (is_by_feature(copy.scaled)) {
        const Quad* from = &shared.denominators[lane_index() % row_lanes * (lane_features + 1)];
#pragma unroll
        for (int quad = 0; quad < lane_features / 4; ++quad) {
            Quad by[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) by[i] = load_shared(from[quad * 4 + i]);
            const auto denominator = [&](int i) {
                return Denominator{by[i].values[0], by[i].values[1], by[i].values[2], by[i].values[3]};
            };
#pragma unroll
            for (int j = 0; j < lane_tokens; ++j) codes[j][quad] = encode_four(numbers, j, quad, denominator);
            if (scales.all_finite) continue;
#pragma unroll
            for (int j = 0; j < lane_tokens; ++j) mend_four(numbers, j, quad, codes[j][quad]);
        }
    } else {
#pragma unroll
        for (int j = 0; j < lane_tokens; ++j) {
            const Denominator own =
                denominator_of<copy, are_short<q, copy>>(scales.tokens[is_by_token(copy.scaled) ? j : 0]);
            const auto denominator = [&](int) { return own; };
#pragma unroll
            for (int quad = 0; quad < lane_features / 4; ++quad) {
                codes[j][quad] = encode_four(numbers, j, quad, denominator);
            }
            if (scales.all_finite) continue;
#pragma unroll
            for (int quad = 0; quad < lane_features / 4; ++quad) mend_four(numbers, j, quad, codes[j][quad]);
        }
    }
}

/// Those of the 16 codes that exist, one by one.
TILEWRIGHT_DEVICE void store_each(u8* to, i64 stride, const IntQuad& codes, int count) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        if (i < count) store_global(to + i * stride, u8(u32(codes.values[i / 4]) >> i % 4 * 8));
    }
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void store_rows(const CopyArguments& to, const TokenTile& tile, int features, const Codes& codes) {
    const int feature = tile.feature + TokenTile::lane_feature();
    u8* place = to.codes + tile.group * to.group_stride + i64(tile.token + TokenTile::lane_token()) * to.token_stride +
                i64(feature) * to.feature_stride;
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j, place += to.token_stride) {
        if (TokenTile::lane_token() + j >= tile.tokens || feature >= features) continue;
        const IntQuad quad{{int(codes[j][0]), int(codes[j][1]), int(codes[j][2]), int(codes[j][3])}};
        if constexpr (q.vectors) {
            store_global(reinterpret_cast<IntQuad*>(place), quad);
        } else {
            store_each(place, to.feature_stride, quad, features - feature);
        }
    }
}

/// Four words of four features become four words of four tokens each.
TILEWRIGHT_DEVICE void transpose_bytes(const u32 (&tokens)[4], u32 (&features)[4]) {
    const u32 low01 = permute_bytes(tokens[0], tokens[1], 0x5140), low23 = permute_bytes(tokens[2], tokens[3], 0x5140);
    const u32 high01 = permute_bytes(tokens[0], tokens[1], 0x7362),
              high23 = permute_bytes(tokens[2], tokens[3], 0x7362);
    features[0] = permute_bytes(low01, low23, 0x5410);
    features[1] = permute_bytes(low01, low23, 0x7632);
    features[2] = permute_bytes(high01, high23, 0x5410);
    features[3] = permute_bytes(high01, high23, 0x7632);
}

/// Chunks of 16 bytes of a feature's 128 in shared memory are exchanged by the lane that has the feature, so that
/// neither the words nor the chunks that a warp accesses share a bank.
TILEWRIGHT_DEVICE int swizzle(int feature) { return feature / lane_features * 4; }

/// Through shared memory. Together.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void store_columns(const CopyArguments& to, const TokenTile& tile, int features, const Codes& codes,
                                     QuantizeShared& shared) {
    const int own_feature = TokenTile::lane_feature(), word = TokenTile::lane_token() / 4;
#pragma unroll
    for (int quad = 0; quad < lane_features / 4; ++quad) {
        u32 tokens[4], of_features[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) tokens[j] = codes[j][quad];
        transpose_bytes(tokens, of_features);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            store_shared(shared.codes[own_feature + quad * 4 + i][word ^ swizzle(own_feature)], of_features[i]);
        }
    }
    sync_block();
    constexpr int chunks = quantize_block / 16;
    const int room = int(min(to.columns - tile.column, i64(quantize_block)));
#pragma unroll
    for (int i = 0; i < quantize_block * chunks / quantize_threads; ++i) {
        const int index = i * quantize_threads + thread_index(), feature = index / chunks, chunk = index % chunks;
        if (tile.feature + feature >= features || chunk * 16 >= room) continue;
        const u32* from = &shared.codes[feature][chunk * 4 ^ swizzle(feature)];
        const IntQuad quad = load_shared(*reinterpret_cast<const IntQuad*>(from));
        u8* const place = to.codes + tile.group * to.group_stride + i64(tile.feature + feature) * to.feature_stride +
                          i64(tile.column + chunk * 16) * to.token_stride;
        if (q.vectors && room >= chunk * 16 + 16) {
            store_global(reinterpret_cast<IntQuad*>(place), quad);
        } else {
            store_each(place, to.token_stride, quad, room - chunk * 16);
        }
    }
    sync_block();
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void store_operand(const CopyArguments& to, const TokenTile& tile, int features, const Codes& codes,
                                     QuantizeShared& shared) {
    if constexpr (copy.transposed) {
        store_columns<q, copy>(to, tile, features, codes, shared);
    } else {
        store_rows<q, copy>(to, tile, features, codes);
    }
}

/// An operand without memory for the tile's columns is left as it is.
template <CopySpec copy>
TILEWRIGHT_DEVICE bool has_room(const CopyArguments& to, const TokenTile& tile) {
    return !copy.transposed || tile.column < to.columns;
}

}  // namespace tilewright::hopper
