// Reduces the peaks of lanes to peaks of a tile's tokens, of its features, or of the whole tile.
#pragma once

#include "hopper/quantize/peaks.h"

namespace tilewright::hopper {

TILEWRIGHT_DEVICE u32 load_word(const u32& from) { return u32(load_shared(reinterpret_cast<const int&>(from))); }

TILEWRIGHT_DEVICE u32 from_lane(u32 word, int lane) { return u32(from_lane(int(word), lane)); }

/// The largest value of the lanes at distances `first`, twice that, .. `last`.
template <class Larger>
TILEWRIGHT_DEVICE u32 larger_of_lanes(u32 word, int first, int last, Larger larger_word) {
    const int lane = lane_index();
#pragma unroll
    for (int step = first; step <= last; step *= 2) word = larger_word(word, from_lane(word, lane ^ step));
    return word;
}

/// Sends half of the peaks to the lane at distance `step`, which has others of the same features or tokens. Each lane
/// keeps the half that it owns.
template <int count, class Larger>
TILEWRIGHT_DEVICE void exchange(const u32* peaks, u32* kept, int step, Larger larger_word) {
    const int lane = lane_index();
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
        const u32 theirs = from_lane(upper ? peaks[i] : peaks[i + count / 2], lane ^ step);
        kept[i] = larger_word(upper ? peaks[i + count / 2] : peaks[i], theirs);
    }
}

/// The peak of the own token's 128 features.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE float reduce_tokens(const Peaks<q, copy, true>& peaks) {
    const auto larger_word = [&](u32 a, u32 b) { return peaks.larger_word(a, b); };
    u32 word;
    if constexpr (are_short<q, copy>) {
        exchange<2>(peaks.held, &word, 4, larger_word);
        word = larger_of_lanes(word, 1, 2, larger_word);
    } else {
        u32 pair[2];
        exchange<4>(peaks.held, pair, 4, larger_word);
        exchange<2>(pair, &word, 2, larger_word);
        word = larger_of_lanes(word, 1, 1, larger_word);
    }
    return peaks.number(word, own_token() % 2);
}

/// The peak of the tile's tokens for feature `thread_index()`, in the first 128 threads. Together.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE float reduce_features(const Peaks<q, copy, false>& peaks, QuantizeShared& shared) {
    constexpr int words = Peaks<q, copy, false>::words, kept = words / 4, in_word = lane_features / words;
    const auto larger_word = [&](u32 a, u32 b) { return peaks.larger_word(a, b); };
    const int lane = lane_index();
    u32 half[words / 2], quarter[kept];
    exchange<words>(peaks.held, half, 8, larger_word);
    exchange<words / 2>(half, quarter, 16, larger_word);
    const int feature = TokenTile::lane_feature() + (lane & 8) + (lane & 16) / 4;
    u32* const to = &shared.peaks[warp_index()][feature / in_word];
    sync_block();
#pragma unroll
    for (int i = 0; i < kept; ++i) store_shared(to[i], quarter[i]);
    sync_block();
    u32 word = 0;
    if (thread_index() < quantize_block) {
#pragma unroll
        for (int warp = 0; warp < quantize_warps; ++warp) {
            word = larger_word(word, load_word(shared.peaks[warp][thread_index() / in_word]));
        }
    }
    return peaks.number(word, thread_index() % 2);
}

/// The largest value of all threads, in every thread. Together.
TILEWRIGHT_DEVICE float reduce_tile(u32 own, QuantizeShared& shared) {
    const auto larger_word = [](u32 a, u32 b) { return max(a, b); };
    own = larger_of_lanes(own, 1, 16, larger_word);
    const int own_warp = warp_index();  // by all lanes together
    sync_block();
    if (lane_index() == 0) store_shared(shared.peaks[0][own_warp], own);
    sync_block();
    u32 peak = 0;
#pragma unroll
    for (int warp = 0; warp < quantize_warps; ++warp) peak = max(peak, load_word(shared.peaks[0][warp]));
    return from_bits(peak);
}

/// The peak of the whole tile, in every thread. Together.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE float reduce_tile(const Peaks<q, copy, true>& peaks, QuantizeShared& shared) {
    u32 word = peaks.held[0];
#pragma unroll
    for (int i = 1; i < peaks.words; ++i) word = peaks.larger_word(word, peaks.held[i]);
    if constexpr (are_short<q, copy>) word = bits_of(larger(peaks.number(word, 0), peaks.number(word, 1)));
    return reduce_tile(word, shared);
}

}  // namespace tilewright::hopper
