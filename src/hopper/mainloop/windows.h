// The mainloop of packed weights for warpgroups with wide rows: a k-block is multiplied window by window, and each
// partial accumulator is promoted by factors of its rows (docs/numerics.md). Rows that are not wide have one window and
// factors of 1, which leave their bits as every other kernel has them.
//
// A k-block's codes are decoded once, and the last window goes through the loop of decode_next.h. Those before it are
// multiplied first, from what is left of the codes if those of other windows are made 0. Warps without a wide row take
// no part in them: the tensor core multiplies whatever they have in registers, and they promote nothing.
#pragma once

#include "hopper/mainloop/decode_next.h"
#include "hopper/mainloop/feed.h"
#include "hopper/mainloop/promoted.h"
#include "hopper/mainloop/wide_flags.h"

namespace tilewright::hopper {

/// `value`, or 1 if bit 0 of `used` is not set: by its bits, for predicates are few.
TILEWRIGHT_DEVICE float one_unless(u32 used, float value) {
    const u32 mask = 0U - (used & 1), one = __builtin_bit_cast(u32, 1.0F);
    return __builtin_bit_cast(float, (__builtin_bit_cast(u32, value) & mask) | (one & ~mask));
}

/// The scales of the tokens that an element of a wide row is promoted by, also where that of other rows waits for the
/// end: of the subtile's j-th 8 columns.
template <Tile tile>
TILEWRIGHT_DEVICE Pair token_scales(const Consumer<tile>& c, const PromotionScales<tile>& scales, int subtile, int j) {
    if constexpr (scales_mma_columns(tile)) return {scales.column[2 * j], scales.column[2 * j + 1]};
    const int column = subtile % subtiles_along_n<tile> * subtile_columns<tile> + j * 8 + c.lane % 4 * 2;
    const float* const pair = &c.shared.column_scales[c.epilogue_scales.stage][column];
    return load_shared(*reinterpret_cast<const Pair*>(pair));
}

/// accumulator = fma(partial * factor, scale * factor, accumulator), in rows that have the window. `wide` bits 0, 1:
/// the lane's first and second row.
template <Tile tile>
TILEWRIGHT_DEVICE void promote_window(const Consumer<tile>& c, float (&accumulator)[subtile_registers<tile>],
                                      const WindowExponents& exponents, u32 wide, const Partial<tile>& partial,
                                      const PromotionScales<tile>& scales, int subtile) {
    const WindowFactors factors[2]{exponents.of_row(0), exponents.of_row(1)};
#pragma unroll
    for (int j = 0; j < subtile_registers<tile> / 4; ++j) {
        const Pair columns = token_scales<tile>(c, scales, subtile, j);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const WindowFactors& row = factors[i / 2];
            const float column = i % 2 == 0 ? columns.x : columns.y;
            const float scale = scales_mma_columns(tile) ? column : one_unless(wide >> i / 2, column);
            float& sum = accumulator[4 * j + i];
            sum = row.given ? fma(partial[4 * j + i] * row.of_sum, scale * row.of_scale, sum) : sum;
        }
    }
}

/// What the loop of decode_next.h does besides in warpgroups with wide rows.
template <Tile tile>
class Windows {
public:
    TILEWRIGHT_DEVICE explicit Windows(const WideRows<tile>& wide) : wide_(wide) {}

    /// The codes of 64 rows at the stage `c.ring`.
    TILEWRIGHT_DEVICE void decode(const Consumer<tile>& c, Feed<tile>& feed, int half) {
        feed.decode_windows(c, half);
        begin(c, half);
    }
    TILEWRIGHT_DEVICE void begin(const Consumer<tile>& c, int half) {
        count_ = WindowsOfRows<tile>::count(packed_half(c, half));
    }

    /// Multiplies and promotes all windows but the last, whose codes alone `feed` has then. It has had those of all.
    TILEWRIGHT_DEVICE void multiply_first(Consumer<tile>& c, Accumulators<tile>& accumulators, Feed<tile>& feed,
                                          Feed<tile>& spare, Partial<tile>& partial, PromotionScales<tile>& scales,
                                          int half) {
        const auto select = [&](int window) { spare.take_window(c, feed, half, window); };
        multiply_first(c, accumulators, spare, partial, scales, half, select);
        if (last_ > 0 && wide_.in_warp[half]) feed.take_window(c, feed, half, last_);
    }

    /// The same with one feed, which `select` fills with a window's codes in warps that have wide rows.
    template <class Select>
    TILEWRIGHT_DEVICE void multiply_first(Consumer<tile>& c, Accumulators<tile>& accumulators, Feed<tile>& feed,
                                          Partial<tile>& partial, PromotionScales<tile>& scales, int half,
                                          const Select& select) {
        const bool in_warp = wide_.in_warp[half];
        last_ = WindowsOfRows<tile>::last(count_);
#pragma unroll 1
        for (int window = 0; window < last_; ++window) {
            if (in_warp) {
                select(window);
                read_exponents(c, half, window);
            }
#pragma unroll
            for (int i = 0; i < subtiles_along_n<tile>; ++i) {
                const int subtile = half * subtiles_along_n<tile> + i;
                scales.read_columns(c, subtile);
                pin(partial);
                feed.issue_decoded(c, partial, subtile);
                wgmma_commit();
                wgmma_wait<0>();
                pin(partial);
                feed.complete();
                if (in_warp) promote_in_window(c, accumulators, partial, scales, subtile);
            }
            sync_warp();
        }
        if (in_warp) read_exponents(c, half, last_);
    }

    /// Rows that are not wide have one window: in warps without wide rows it is the last of the tile.
    TILEWRIGHT_DEVICE void promote_last(const Consumer<tile>& c, Accumulators<tile>& accumulators,
                                        const Partial<tile>& partial, const PromotionScales<tile>& scales,
                                        int subtile) const {
        if (wide_.in_warp[subtile / subtiles_along_n<tile>]) {
            promote_in_window(c, accumulators, partial, scales, subtile);
        } else {
            promote<tile>(accumulators[subtile], partial, scales, subtile, {});
        }
        sync_warp();
    }

    /// Of the rows of which all other windows are multiplied.
    TILEWRIGHT_DEVICE int last() const { return last_; }

private:
    TILEWRIGHT_DEVICE void read_exponents(const Consumer<tile>& c, int half, int window) {
        exponents_ = WindowsOfRows<tile>::exponents(c, packed_half(c, half), window);
    }

    TILEWRIGHT_DEVICE void promote_in_window(const Consumer<tile>& c, Accumulators<tile>& accumulators,
                                             const Partial<tile>& partial, const PromotionScales<tile>& scales,
                                             int subtile) const {
        promote_window<tile>(c, accumulators[subtile], exponents_, wide_.of_lane[subtile / subtiles_along_n<tile>],
                             partial, scales, subtile);
    }

    const WideRows<tile>& wide_;
    u32 count_ = 0;                // as it stands behind codes that are decoded
    int last_ = 0;                 // of the windows of those that are multiplied
    WindowExponents exponents_{};  // of the window under way
};

/// All k-blocks of a tile, where there are no registers to decode ahead.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_windows_in_turn(Consumer<tile>& c, Accumulators<tile>& accumulators,
                                                const WideRows<tile>& wide) {
    constexpr int along_n = subtiles_along_n<tile>;
    Windows<tile> windows(wide);
    Feed<tile> feed(c);
    Partial<tile> partial;
    PromotionScales<tile> scales;
    clear<tile>(accumulators);
#pragma unroll 1
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        c.wait_full();
#pragma unroll
        for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
            if (subtile % along_n == 0) {
                const int half = subtile / along_n;
                const auto select = [&](int window) { feed.decode_window(c, half, window); };
                windows.begin(c, half);
                windows.multiply_first(c, accumulators, feed, partial, scales, half, select);
                if (wide.in_warp[half]) {
                    select(windows.last());
                } else {
                    feed.decode(c, subtile);
                }
            }
            scales.read_columns(c, subtile);
            pin(partial);
            feed.issue_decoded(c, partial, subtile);
            wgmma_commit();
            wgmma_wait<0>();
            pin(partial);
            feed.complete();
            windows.promote_last(c, accumulators, partial, scales, subtile);
        }
        c.release(c.ring.stage);
        c.ring.advance();
    }
}

}  // namespace tilewright::hopper
