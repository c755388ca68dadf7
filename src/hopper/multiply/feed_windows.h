// The operand feed of packed MXFP4 weights with wide rows. It decodes all values as PackedFeed does. It also selects
// the values of one exponent window at a time; all others are then 0. The order of values, scales and windows is in
// src/formats/packed_layout.h.
#pragma once

#include "hopper/multiply/feed_packed.h"

namespace tilewright::hopper {

/// The factors of a row's sums in a window: acc = fma(p * of_sum, scale of the other side * of_scale, acc).
struct WindowFactors {
    bool given;  // false: the row takes no part, whatever the other side's scale is
    float of_sum;
    float of_scale;
};

/// `exponent` is the largest exponent of the window; for 6, fp8_top_exponent, the product of the factors is 1. Each
/// side gets half of the power, which keeps both factors in fp32's range. If the power is odd, the scale gets the
/// larger half.
TILEWRIGHT_DEVICE WindowFactors window_factors(int exponent) {
    constexpr u32 exponent_field = 0xFF80'0000;
    const u32 twice = u32(exponent - formats::fp8_top_exponent + 2 * 127);  // the biased exponent of half of the power
    return {exponent != formats::no_window, __builtin_bit_cast(float, twice << 22 & exponent_field),
            __builtin_bit_cast(float, (twice + 1) << 22 & exponent_field)};
}

/// The largest exponents of a window, for a lane's two rows.
struct WindowExponents {
    TILEWRIGHT_DEVICE WindowFactors of_row(int row) const { return window_factors(int(both << (24 - 8 * row)) >> 24); }

    u32 both;
};

/// The data that follow the values and scales of 64 rows: the number of windows and their exponents.
TILEWRIGHT_DEVICE const u8* windows_begin(const StagedWeights& rows) {
    return rows.scales + packed_rows * (packed_k / step_k);
}

/// The number of windows as stored, the same in all warps of a warpgroup.
TILEWRIGHT_DEVICE u32 window_count(const StagedWeights& rows) {
    return u32(same_in_warp(load_shared(*reinterpret_cast<const int*>(windows_begin(rows)))));
}
/// Tiles after the last tile of B are not loaded. Their count may be anything, and is clamped.
TILEWRIGHT_DEVICE int last_window(u32 count) { return int(min(count - 1, u32(most_windows - 1))); }

template <Design design>
TILEWRIGHT_DEVICE WindowExponents window_exponents(const Consumer<design>& c, const StagedWeights& rows, int window) {
    const u8* const first = windows_begin(rows) + windows_head_bytes + window * packed_window_bytes;
    const int pair = pair_of_rows(c);  // two pairs share a word
    return {u32(load_shared(reinterpret_cast<const int*>(first)[pair / 2])) >> pair % 2 * 16};
}

/// The scales without the window numbers.
TILEWRIGHT_DEVICE CodeScales without_windows(const CodeScales& scales) {
    constexpr u32 in_window = 0x0F0F'0F0F;
    return {{scales.rows[0] & in_window, scales.rows[1] & in_window}};
}

/// For each step, the top bit of a byte tells whether a row's values are in the window.
TILEWRIGHT_DEVICE u32 steps_in_window(u32 scales, int window) {
    constexpr u32 windows = 0xF0F0'F0F0, ones = 0x1010'1010, top_bits = 0x8080'8080;
    const u32 off = (scales ^ u32(window) * ones) & windows;  // per byte: 0 if in the window, else at most 0x70
    return top_bits - off;
}

template <Design design>
struct Feed<design, FeedKind::windowed> : PackedFeed<design> {
    /// Initialised, because warps may multiply these registers ahead of any decoding. They discard the sums.
    TILEWRIGHT_DEVICE explicit Feed(const Consumer<design>& /*consumer*/) {
#pragma unroll
        for (int i = 0; i < wgmma_steps * fragment_words; ++i) {
            this->of(0)[i / fragment_words][i % fragment_words] = 0;
        }
    }

    /// Decodes the values of all windows, each relative to its own window.
    TILEWRIGHT_DEVICE void decode_windows(const Consumer<design>& c, int half) {
        const StagedWeights from = staged_weights(c, half);
        this->decode(0, staged_codes(c, from), without_windows(CodeScales::load(c, from)));
    }

    /// Moves the values of `all` that are in a window to this feed, with 0 for the others. Only in a lane's first or
    /// second row, as `rows` tells; the other row keeps its values.
    TILEWRIGHT_DEVICE void take_window(const Consumer<design>& c, Feed& all, int half, int window,
                                       const bool (&rows)[2]) {
        for_masks(c, half, window, rows, [&](int step, int i, u32 mask) {
            this->of(0)[step][i] = all.of(0)[step][i] & mask;
            all.of(0)[step][i] &= ~mask;
        });
    }

    /// Keeps only the values that are in a window, in the rows that `rows` selects.
    TILEWRIGHT_DEVICE void keep_window(const Consumer<design>& c, int half, int window, const bool (&rows)[2]) {
        for_masks(c, half, window, rows, [&](int step, int i, u32 mask) { this->of(0)[step][i] &= mask; });
    }

private:
    /// Calls `use(step, i, mask)` for each word of the selected rows. The mask has all bits set for values in the
    /// window.
    template <class Use>
    TILEWRIGHT_DEVICE static void for_masks(const Consumer<design>& c, int half, int window, const bool (&rows)[2],
                                            const Use& use) {
        const CodeScales scales = CodeScales::load(c, staged_weights(c, half));
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            if (!rows[row]) continue;
            const u32 in_window = steps_in_window(scales.rows[row], window);
#pragma unroll
            for (int step = 0; step < wgmma_steps; ++step) {
                const u32 mask = top_bit_mask(in_window, step);
                use(step, row, mask);
                use(step, row + 2, mask);
            }
        }
    }
};

}  // namespace tilewright::hopper
