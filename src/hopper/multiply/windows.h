// The mainloop of packed weights for warpgroups with wide rows. It multiplies a k-block window by window, and promotes
// each partial accumulator by factors of its rows (docs/numerics.md). Rows that are not wide have one window and
// factors of 1, so that their bits are the same as in every other kernel.
//
// The values of a k-block are decoded once, and the last window goes through the loop of fill_next.h. The earlier
// windows are multiplied first, from copies of the values in which values of other windows are 0. Warps without a wide
// row take no part in the earlier windows: the tensor core multiplies whatever their registers hold, and they promote
// nothing.
#pragma once

#include "hopper/multiply/feed.h"
#include "hopper/multiply/feed_windows.h"
#include "hopper/multiply/fill_next.h"
#include "hopper/multiply/scales_promote.h"

namespace tilewright::hopper {

/// The scales of a lane's columns of tokens. The sums of wide rows are promoted by them even if the tokens' scales are
/// epilogue scales for other rows.
template <Design design>
struct TokenScales {
    TILEWRIGHT_DEVICE TokenScales(const Consumer<design>& c, const PromotionScales<design>& scales, int subtile) {
        if constexpr (design.mma_b.scales_of_row > 0) {
#pragma unroll
            for (int i = 0; i < design.wgmma_n / 4; ++i) column[i] = scales.column[i];
        } else {
            const int first = PromotionScales<design>::first_column(c, subtile);
            load_columns(column, &c.shared.column_scales[c.epilogue_scales.stage][first]);
        }
    }

    /// Replaces them by 1 for a row that is not wide. It works on bits, because predicates are few.
    TILEWRIGHT_DEVICE void leave_out_unless(bool wide) {
        const u32 mask = wide ? ~0U : 0, one = __builtin_bit_cast(u32, 1.0F);
#pragma unroll
        for (float& scale : column) {
            scale = __builtin_bit_cast(float, (__builtin_bit_cast(u32, scale) & mask) | (one & ~mask));
        }
    }

    float column[design.wgmma_n / 4];
};

/// accumulator = fma(partial * factor, scale * factor, accumulator) in one of a lane's two rows, if the row has the
/// window.
template <Design design>
TILEWRIGHT_DEVICE void promote_window(float (&accumulator)[design.wgmma_n / 2], const Partial<design>& partial,
                                      const WindowFactors& factors, const TokenScales<design>& tokens, int row) {
#pragma unroll
    for (int i = 0; i < (design.wgmma_n / 2) / 2; ++i) {
        const int index = i / 2 * 4 + 2 * row + i % 2;
        float& sum = accumulator[index];
        sum = factors.given ? fma(partial[index] * factors.of_sum, tokens.column[i] * factors.of_scale, sum) : sum;
    }
}

/// The same if rows of tokens leave powers of two to the epilogue (deferred.h). Scales for wide rows leave none.
/// `scale(i)` is the token scale of the lane's i-th column.
template <Design design, class Scale>
TILEWRIGHT_DEVICE void promote_deferring(const Consumer<design>& c, float (&accumulator)[design.wgmma_n / 2],
                                         const Partial<design>& partial, const WindowFactors& factors,
                                         const Scale& scale, int subtile, int row, bool wide) {
    const int first = PromotionScales<design>::first_column(c, subtile);
    const float* const powers = &c.shared.column_scales[c.epilogue_scales.stage][first];
#pragma unroll
    for (int i = 0; i < (design.wgmma_n / 2) / 2; ++i) {
        const int index = i / 2 * 4 + 2 * row + i % 2;
        const float power = wide ? 1.0F : load_shared(powers[i / 2 * 8 + i % 2]);
        float& sum = accumulator[index];
        sum = factors.given ? fma(partial[index] * factors.of_sum, scale(i) * power * factors.of_scale, sum) : sum;
    }
}

/// partial = the product of the values that the feed holds; waits for it.
template <Design design>
TILEWRIGHT_DEVICE void multiply_held(Consumer<design>& c, Feed<design>& feed, Partial<design>& partial, int subtile) {
    pin(partial);
    feed.issue_held(c, partial, subtile, false);
    wgmma_commit();
    finish_product<design>(feed, partial);
}

/// The extra work of fill_next.h's loop in warpgroups with wide rows. `deferring`: rows of tokens leave powers of two
/// to the epilogue (deferred.h).
template <Design design, bool deferring = false>
class Windows {
public:
    static constexpr bool reads_columns_first() { return true; }  // for the windows that precede the last one

    TILEWRIGHT_DEVICE explicit Windows(const WideRows<design>& wide) : wide_(wide) {}

    /// Decodes the values of 64 rows in the stage `c.ring`, for all windows.
    TILEWRIGHT_DEVICE void fill(const Consumer<design>& c, Feed<design>& feed, int half) {
        feed.decode_windows(c, half);
        begin(c, half);
    }
    TILEWRIGHT_DEVICE void begin(const Consumer<design>& c, int half) {
        count_ = window_count(staged_weights(c, half));
    }

    /// Multiplies and promotes all windows except the last. `feed` then holds only the values of the last window.
    TILEWRIGHT_DEVICE void multiply_first(Consumer<design>& c, Accumulators<design>& accumulators, Feed<design>& feed,
                                          Feed<design>& spare, Partial<design>& partial,
                                          PromotionScales<design>& scales, int half) {
        const auto take = [&](int window) {
            if (wide_.in_warp(half)) spare.take_window(c, feed, half, window, wide_.in_rows[half]);
        };
        multiply_first(c, accumulators, spare, partial, scales, half, take);
    }

    /// The same with the feed that `take` fills.
    template <class Take>
    TILEWRIGHT_DEVICE void multiply_first(Consumer<design>& c, Accumulators<design>& accumulators, Feed<design>& feed,
                                          Partial<design>& partial, PromotionScales<design>& scales, int half,
                                          const Take& take) {
        constexpr int along_n = design.wgmmas_along_n;
        last_ = last_window(count_);
#pragma unroll 1
        for (int window = 0; window < last_; ++window) {
            take(window);
            read_exponents(c, half, window);
#pragma unroll
            for (int i = 0; i < along_n; ++i) {
                const int subtile = half * along_n + i;
                if (along_n > 1) scales.read_columns(c, subtile);
                multiply_held<design>(c, feed, partial, subtile);
                promote(c, accumulators[subtile], partial, scales, subtile, false);
            }
        }
        read_exponents(c, half, last_);
    }

    /// Rows that are not wide have one window, which is the last one of the 64 rows.
    TILEWRIGHT_DEVICE void promote(const Consumer<design>& c, float (&sums)[design.wgmma_n / 2],
                                   const Partial<design>& partial, const PromotionScales<design>& scales, int subtile,
                                   bool is_last) const {
        const int half = subtile / design.wgmmas_along_n;
        if constexpr (deferring) {
            promote_deferring(c, sums, partial, subtile, is_last);
        } else if (!wide_.in_warp(half)) {
            if (is_last) hopper::promote<design>(sums, partial, scales, subtile, {});
        } else {
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                if (wide_.in_rows[half][row]) {
                    TokenScales<design> tokens(c, scales, subtile);
                    if (design.mma_b.scales_of_row == 0 && !wide_.all_rows[half][row])
                        tokens.leave_out_unless((wide_.of_lane[half] >> row & 1) != 0);
                    promote_window<design>(sums, partial, exponents_.of_row(row), tokens, row);
                } else if (is_last) {
                    promote_row<design>(sums, partial, scales, subtile, {}, row);
                }
            }
        }
        sync_warp();
    }

    /// The number of the last window of the rows that are being multiplied.
    TILEWRIGHT_DEVICE int last() const { return last_; }

private:
    TILEWRIGHT_DEVICE void read_exponents(const Consumer<design>& c, int half, int window) {
        if (wide_.in_warp(half)) exponents_ = window_exponents(c, staged_weights(c, half), window);
    }

    /// Reads scales from the stage itself, because too few registers are free to hold them.
    TILEWRIGHT_DEVICE void promote_deferring(const Consumer<design>& c, float (&sums)[design.wgmma_n / 2],
                                             const Partial<design>& partial, int subtile, bool is_last) const {
        const int half = subtile / design.wgmmas_along_n, first = PromotionScales<design>::first_column(c, subtile);
        const float* const scales = c.shared.mma_b_scales[c.ring.stage] + first;
        const auto scale = [&](int i) { return load_shared(scales[i / 2 * 8 + i % 2]); };
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const bool in_windows = wide_.in_rows[half][row];
            if (!in_windows && !is_last) continue;
            const WindowFactors factors = in_windows ? exponents_.of_row(row) : WindowFactors{true, 1, 1};
            hopper::promote_deferring<design>(c, sums, partial, factors, scale, subtile, row,
                                              (wide_.of_lane[half] >> row & 1) != 0);
        }
    }

    const WideRows<design>& wide_;
    u32 count_ = 0;                // as stored after the values that are decoded
    int last_ = 0;                 // the last window of the values that are multiplied
    WindowExponents exponents_{};  // of the current window
};

/// All k-blocks of a tile, for tiles without registers to decode ahead or to hold one window's values in addition to
/// all values. The values are decoded again for each window.
template <Design design, bool deferring>
TILEWRIGHT_DEVICE void multiply_windows_in_turn(Consumer<design>& c, Accumulators<design>& accumulators,
                                                const WideRows<design>& wide) {
    constexpr int along_n = design.wgmmas_along_n;
    Windows<design, deferring> windows(wide);
    Feed<design> feed(c);
    Partial<design> partial;
    PromotionScales<design> scales;
    clear<design>(accumulators);
#pragma unroll 1
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        c.wait_full();
        if (along_n == 1) scales.read_columns(c, 0);
#pragma unroll
        for (int subtile = 0; subtile < design.subtiles; ++subtile) {
            if (subtile % along_n == 0) {
                const int half = subtile / along_n;
                const auto take = [&](int window) {
                    if (!wide.in_warp(half)) return;
                    feed.decode_windows(c, half);
                    feed.keep_window(c, half, window, wide.in_rows[half]);
                };
                windows.begin(c, half);
                windows.multiply_first(c, accumulators, feed, partial, scales, half, take);
                if (!wide.in_warp(half)) feed.decode_windows(c, half);
                take(windows.last());
            }
            if (along_n > 1) scales.read_columns(c, subtile);
            multiply_held<design>(c, feed, partial, subtile);
            windows.promote(c, accumulators[subtile], partial, scales, subtile, true);
        }
        c.release(c.ring.stage);
        c.ring.advance();
    }
}

}  // namespace tilewright::hopper
