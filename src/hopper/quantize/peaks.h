// The largest finite magnitudes of a lane's numbers, per token or per feature. They are words that ascend as the
// magnitudes do: bits of fp32, or two numbers of 16 bits.
#pragma once

#include "hopper/quantize/folded.h"
#include "hopper/quantize/scale.h"

namespace tilewright::hopper {

/// The larger magnitude. With `finite` only finite numbers count; otherwise the result is NaN or infinity if either is.
template <bool finite>
TILEWRIGHT_DEVICE float include(float peak, float number) {
    if constexpr (!finite) return larger(peak, magnitude(number));
    return is_finite(number) ? larger(peak, magnitude(number)) : peak;
}

/// Whether numbers have 16 bits, at most 11 of them significant.
template <Quantizer q, CopySpec copy>
inline constexpr bool are_short = holds_pairs(q) && !has_factors(copy);

/// A lane's peaks of its tokens (by_token) or features.
template <Quantizer q, CopySpec copy, bool by_token>
struct Peaks {
    static constexpr bool packed = are_short<q, copy>;  // two peaks per word
    static constexpr int numbers = by_token ? lane_tokens : lane_features;
    static constexpr int words = packed ? numbers / 2 : numbers;
    u32 held[words];

    static TILEWRIGHT_DEVICE u32 larger_word(u32 a, u32 b) { return packed ? larger_halves(a, b) : max(a, b); }
    /// The first or the second number of a word.
    static TILEWRIGHT_DEVICE float number(u32 word, int index) {
        return packed ? half<q>(word, index) : from_bits(word);
    }
};

/// Whether all numbers of a peak share their last factor. It then multiplies the peak instead, because the product's
/// rounding keeps the order.
template <CopySpec copy>
constexpr bool multiplies_peaks(bool by_token) {
    return by_token ? copy.token_factors && !copy.feature_factors : copy.feature_factors;
}
/// The factors that precede the last one.
constexpr CopySpec inner_factors(CopySpec copy, bool by_token) {
    copy.feature_factors = false;
    copy.token_factors = copy.token_factors && !by_token;
    return copy;
}

/// False if a number is infinite or NaN. With `finite`, no number counts as such.
template <bool finite, Quantizer q, CopySpec copy, bool by_token>
TILEWRIGHT_DEVICE bool number_peaks(const FoldedNumbers<q, copy>& numbers, Peaks<q, copy, by_token>& peaks) {
    float largest = 0;
#pragma unroll
    for (int p = 0; p < peaks.numbers; ++p) {
        float peak = 0;
#pragma unroll
        for (int other = 0; other < (by_token ? lane_features : lane_tokens); ++other) {
            peak = include<finite>(peak, by_token ? numbers.at(p, other) : numbers.at(other, p));
        }
        largest = larger(largest, peak);
        peaks.held[p] = bits_of(peak);
    }
    return is_finite(largest);
}

/// Words of two magnitudes; with `finite`, zeros for infinity and NaN.
template <bool finite, Quantizer q>
TILEWRIGHT_DEVICE u32 magnitudes(u32 pair) {
    constexpr u32 infinity = q.source == Number::bf16 ? 0x7F80 : 0x7C00;
    const u32 both = pair & 0x7FFF'7FFFU;
    if constexpr (!finite) return both;
    return ((both & 0xFFFFU) < infinity ? both & 0xFFFFU : 0U) | (both >> 16 < infinity ? both & 0xFFFF'0000U : 0U);
}

/// The peaks of 16-bit numbers in their memory format. Magnitudes ascend as integers do, two at a time. Per token there
/// are the peaks of even and of odd features; otherwise there is one per feature.
template <bool by_token, bool finite, Quantizer q, int count>
TILEWRIGHT_DEVICE bool pair_peaks(const Numbers<q>& h, u32 (&pairs)[count]) {
    u32 all = 0;
#pragma unroll
    for (int p = 0; p < count; ++p) {
        pairs[p] = 0;
#pragma unroll
        for (int other = 0; other < (by_token ? Numbers<q>::words : lane_tokens); ++other) {
            pairs[p] = larger_halves(pairs[p], magnitudes<finite, q>(by_token ? h.held[p][other] : h.held[other][p]));
        }
        all = larger_halves(all, pairs[p]);
    }
    return is_finite(half<q>(all, 0)) && is_finite(half<q>(all, 1));
}

template <bool finite, Quantizer q, CopySpec copy, bool by_token>
TILEWRIGHT_DEVICE bool packed_peaks(const Numbers<q>& h, Peaks<q, copy, by_token>& peaks) {
    if constexpr (!by_token) return pair_peaks<false, finite>(h, peaks.held);
    u32 pairs[lane_tokens];
    const bool all_finite = pair_peaks<true, finite>(h, pairs);
#pragma unroll
    for (int word = 0; word < lane_tokens / 2; ++word) {
        const u32 first = pairs[2 * word], second = pairs[2 * word + 1];
        peaks.held[word] = larger_halves(permute_bytes(first, second, 0x5410), permute_bytes(first, second, 0x7632));
    }
    return all_finite;
}

/// The peaks with NaN and infinity included.
template <Quantizer q, CopySpec copy, bool by_token>
TILEWRIGHT_DEVICE bool all_peaks(const FoldedNumbers<q, copy>& numbers, Peaks<q, copy, by_token>& peaks) {
    if constexpr (are_short<q, copy>) return packed_peaks<false>(numbers.h, peaks);
    if constexpr (!multiplies_peaks<copy>(by_token)) return number_peaks<false>(numbers, peaks);
    constexpr CopySpec inner = inner_factors(copy, by_token);
    FoldedNumbers<q, inner> unmultiplied{.h = numbers.h, .tokens = {}, .features = {}};
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) unmultiplied.tokens[j] = numbers.tokens[j];
    Peaks<q, inner, by_token> before;
    all_peaks(unmultiplied, before);
    float largest = 0;
#pragma unroll
    for (int p = 0; p < peaks.numbers; ++p) {
        const float factor = by_token ? numbers.tokens[p] : numbers.features[p];
        const float peak = magnitude(before.number(before.held[before.packed ? p / 2 : p], p % 2) * factor);
        largest = larger(largest, peak);
        peaks.held[p] = bits_of(peak);
    }
    return is_finite(largest);
}

/// Finite peaks. False if a number of the warp is infinite or NaN, which costs a second pass. By a warp together.
template <Quantizer q, CopySpec copy, bool by_token>
TILEWRIGHT_DEVICE bool finite_peaks(const FoldedNumbers<q, copy>& numbers, Peaks<q, copy, by_token>& peaks) {
    const bool all_finite = ballot(!all_peaks(numbers, peaks)) == 0;
    if (!all_finite) {
        numbers.h.forget();
        if constexpr (are_short<q, copy>) {
            packed_peaks<true>(numbers.h, peaks);
        } else {
            number_peaks<true>(numbers, peaks);
        }
    }
    return all_finite;
}

}  // namespace tilewright::hopper
