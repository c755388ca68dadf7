// The largest finite magnitudes of a tile, for each token, each feature, or all of it.
#pragma once

#include "hopper/quantize/load.h"
#include "hopper/quantize/scale.h"

namespace tilewright::hopper {

/// The block's shared memory: 22 KB.
struct QuantizeShared {
    u32 codes[quantize_block][quantize_block / 4];  // for each feature the codes of 128 tokens, 16 bytes swizzled
    float peaks[quantize_warps][quantize_block];
    Quad denominators[quantize_block + quantize_block / lane_features];  // a gap after 16: 8 lanes read in one go
};

static_assert(sizeof(QuantizeShared) == quantize_shared_bytes);

/// h with an operand's factors.
template <Quantizer q, CopySpec copy>
struct Folded {
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

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE Folded<q, copy> fold(Numbers<q>& h, const FoldFactors& factors, const TokenTile& tile, int features) {
    Folded<q, copy> folded{.h = h, .tokens = {}, .features = {}};
    if constexpr (copy.token_factors) {
        const int token = TokenTile::lane_token();
#pragma unroll
        for (int j = 0; j < lane_tokens; ++j) {
            const i64 index = (tile.token + token + j) * factors.token_stride;
            folded.tokens[j] = token + j < tile.tokens ? load_global(factors.tokens + index) : 1.0F;
        }
    }
    if constexpr (copy.feature_factors) {
        const int feature = tile.feature + TokenTile::lane_feature();
        const float* from = factors.features + tile.group * factors.feature_group_stride;
#pragma unroll
        for (int i = 0; i < lane_features; ++i) {
            const i64 index = (feature + i) * factors.feature_stride;
            folded.features[i] = feature + i < features ? load_global(from + index) : 1.0F;
        }
    }
    return folded;
}

/// The larger magnitude; with `finite` of finite numbers only, otherwise NaN or infinity if there is one.
template <bool finite>
TILEWRIGHT_DEVICE float include(float peak, float number) {
    if constexpr (!finite) return larger(peak, magnitude(number));
    return is_finite(number) ? larger(peak, magnitude(number)) : peak;
}

/// One peak for each of the lane's tokens (by_token) or features.
template <bool by_token, bool finite, Quantizer q, CopySpec copy, int count>
TILEWRIGHT_DEVICE bool lane_peaks(const Folded<q, copy>& numbers, float (&peaks)[count]) {
    bool all_finite = true;
#pragma unroll
    for (int p = 0; p < count; ++p) {
        peaks[p] = 0;
#pragma unroll
        for (int other = 0; other < (by_token ? lane_features : lane_tokens); ++other) {
            peaks[p] = include<finite>(peaks[p], by_token ? numbers.at(p, other) : numbers.at(other, p));
        }
        all_finite = all_finite && is_finite(peaks[p]);
    }
    return all_finite;
}

/// The same, NaN and infinity included, of numbers as they are: magnitudes of 16 bits ascend as integers do, two at a
/// time.
template <bool by_token, Quantizer q, int count>
TILEWRIGHT_DEVICE void pair_peaks(const Numbers<q>& h, u32 (&pairs)[count]) {
    constexpr u32 magnitudes = 0x7FFF'7FFF;
#pragma unroll
    for (int p = 0; p < count; ++p) {
        pairs[p] = 0;
#pragma unroll
        for (int other = 0; other < (by_token ? Numbers<q>::words : lane_tokens); ++other) {
            pairs[p] = larger_halves(pairs[p], (by_token ? h.held[p][other] : h.held[other][p]) & magnitudes);
        }
    }
}

/// As `lane_peaks` without `finite`.
template <bool by_token, Quantizer q, int count>
TILEWRIGHT_DEVICE bool packed_peaks(const Numbers<q>& h, float (&peaks)[count]) {
    u32 pairs[by_token ? count : count / 2];
    pair_peaks<by_token>(h, pairs);
    u32 all = 0;
#pragma unroll
    for (const u32 pair : pairs) all = larger_halves(all, pair);
    if constexpr (by_token) {
#pragma unroll
        for (int p = 0; p < count; ++p) peaks[p] = larger(half<q>(pairs[p], 0), half<q>(pairs[p], 1));
    } else {
#pragma unroll
        for (int p = 0; p < count; ++p) peaks[p] = half<q>(pairs[p / 2], p % 2);
    }
    return is_finite(half<q>(all, 0)) && is_finite(half<q>(all, 1));
}

/// Finite peaks. False if a number of the lane is infinite or NaN, which costs a second look.
template <bool by_token, Quantizer q, CopySpec copy, int count>
TILEWRIGHT_DEVICE bool finite_peaks(const Folded<q, copy>& numbers, float (&peaks)[count]) {
    bool all_finite;
    if constexpr (is_packed(q) && !has_factors(copy)) {
        all_finite = packed_peaks<by_token>(numbers.h, peaks);
    } else {
        all_finite = lane_peaks<by_token, false>(numbers, peaks);
    }
    if (!all_finite) {
        numbers.h.forget();
        lane_peaks<by_token, true>(numbers, peaks);
    }
    return all_finite;
}

TILEWRIGHT_DEVICE float larger_of_lanes(float value, int first, int last) {
    const int lane = lane_index();
#pragma unroll
    for (int step = first; step <= last; step *= 2) value = larger(value, from_lane(value, lane ^ step));
    return value;
}

/// The peaks of a token's 128 features, from the lanes that have them.
TILEWRIGHT_DEVICE void reduce_tokens(float (&peaks)[lane_tokens]) {
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) peaks[j] = larger_of_lanes(peaks[j], 1, row_lanes / 2);
}

/// Half of the peaks go to the lane at distance `step`, which has the same features: each keeps the half that it owns.
template <int count>
TILEWRIGHT_DEVICE void exchange(const float* peaks, float* kept, int step) {
    const int lane = lane_index();
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
        const float theirs = from_lane(upper ? peaks[i] : peaks[i + count / 2], lane ^ step);
        kept[i] = larger(upper ? peaks[i + count / 2] : peaks[i], theirs);
    }
}

/// The peak of the tile's tokens for feature `thread_index()`, in the first 128 threads. Together.
TILEWRIGHT_DEVICE float reduce_features(const float (&peaks)[lane_features], QuantizeShared& shared) {
    const int lane = lane_index();
    float half[lane_features / 2];
    Quad quarter;
    exchange<lane_features>(peaks, half, 8);
    exchange<lane_features / 2>(half, quarter.values, 16);
    const int feature = TokenTile::lane_feature() + (lane & 8) + (lane & 16) / 4;
    sync_block();
    store_shared(*reinterpret_cast<Quad*>(&shared.peaks[warp_index()][feature]), quarter);
    sync_block();
    float peak = 0;
    if (thread_index() < quantize_block) {
#pragma unroll
        for (int warp = 0; warp < quantize_warps; ++warp) {
            peak = larger(peak, load_shared(shared.peaks[warp][thread_index()]));
        }
    }
    return peak;
}

/// The peak of the whole tile, in every thread. Together.
TILEWRIGHT_DEVICE float reduce_tile(const float (&peaks)[lane_tokens], QuantizeShared& shared) {
    float peak = larger(larger(peaks[0], peaks[1]), larger(peaks[2], peaks[3]));
    peak = larger_of_lanes(peak, 1, 16);
    const int own_warp = warp_index();  // by all lanes together
    sync_block();
    if (lane_index() == 0) store_shared(shared.peaks[0][own_warp], peak);
    sync_block();
    peak = 0;
#pragma unroll
    for (int warp = 0; warp < quantize_warps; ++warp) peak = larger(peak, load_shared(shared.peaks[0][warp]));
    return peak;
}

}  // namespace tilewright::hopper
