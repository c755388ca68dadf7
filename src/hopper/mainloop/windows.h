// The mainloop of packed weights for warpgroups with wide rows: a k-block is multiplied window by window, and each
// partial accumulator is promoted by factors of its rows (docs/numerics.md). Rows that are not wide have one window and
// factors of 1, which leave their bits as every other kernel has them.
//
// Windows are steps like k-blocks: where registers allow, the codes of the next one are decoded while the tensor core
// multiplies this one. Warps without a wide row multiply zeros in all windows but the first, and do not promote them.
#pragma once

#include "hopper/mainloop/feed.h"
#include "hopper/mainloop/promoted.h"
#include "hopper/mainloop/wide_flags.h"

namespace tilewright::hopper {

/// The scales of the tokens that an element of a wide row is promoted by, also where that of other rows waits for the
/// end: of the subtile's j-th 8 columns.
template <Tile tile>
TILEWRIGHT_DEVICE Pair token_scales(const Consumer<tile>& c, const PromotionScales<tile>& scales, int subtile, int j) {
    if constexpr (scales_mma_columns(tile)) return {scales.column[2 * j], scales.column[2 * j + 1]};
    const int column = subtile % subtiles_along_n<tile> * subtile_columns<tile> + j * 8 + c.lane % 4 * 2;
    const float* const pair = &c.shared.column_scales[c.epilogue_scales.stage][column];
    return load_shared(*reinterpret_cast<const Pair*>(pair));
}

/// accumulator = fma(partial * factor, scale * factor, accumulator), in rows that have the window.
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
            const bool scaled = scales_mma_columns(tile) || (wide >> i / 2 & 1) != 0;
            const float scale = scaled ? (i % 2 == 0 ? columns.x : columns.y) : 1.0F;
            float& sum = accumulator[4 * j + i];
            sum = row.given ? fma(partial[4 * j + i] * row.of_sum, scale * row.of_scale, sum) : sum;
        }
    }
}

/// All k-blocks of a tile.
template <Tile tile>
class WindowsLoop {
public:
    TILEWRIGHT_DEVICE WindowsLoop(Consumer<tile>& c, Accumulators<tile>& accumulators, const WideRows<tile>& wide)
        : c_(c), accumulators_(accumulators), wide_(wide), feeds_{Feed<tile>(c), Feed<tile>(c)}, left_(c.k_blocks) {}

    TILEWRIGHT_DEVICE void run() {
        clear<tile>(accumulators_);
        c_.wait_full();
        begin_half();
        decode(feeds_[0]);
#pragma unroll 1
        while (true) {
            step<0>();
            if (left_ == 0) break;
            step<ahead ? 1 : 0>();
            if (left_ == 0) break;
        }
        sync_warp();
    }

private:
    static constexpr bool ahead = decodes_ahead(tile);
    static constexpr int halves = WideRows<tile>::halves, along_n = subtiles_along_n<tile>;

    /// Multiplies and promotes one window of 64 rows, whose codes are decoded, and decodes what comes next.
    template <int feed>
    TILEWRIGHT_DEVICE void step() {
        const int stage = c_.ring.stage, half = half_, window = window_;
        WindowExponents exponents{};
        if (in_warp(half)) exponents = WindowsOfRows<tile>::exponents(c_, codes_, window);
        bool ends_k_block = false;
#pragma unroll
        for (int i = 0; i < along_n; ++i) {
            const bool ends = i == along_n - 1;
            scales_.read_columns(c_, i);
            pin(partial_);
            feeds_[feed].issue_decoded(c_, partial_, i);
            wgmma_commit();
            if (ends) {
                ends_k_block = go_on();
                if (ahead && left_ > 0) decode(feeds_[1 - feed]);
            }
            wgmma_wait<0>();
            pin(partial_);
            if (ends) feeds_[feed].complete();
            if (ends && ends_k_block) c_.release(stage);
            if (half == 0) promote_one<0>(i, window, exponents);
            if (half == 1) promote_one<halves - 1>(i, window, exponents);
        }
        sync_warp();
        if (!ahead && left_ > 0) decode(feeds_[feed]);
    }

    /// Whether the warp has wide rows among these 64.
    TILEWRIGHT_DEVICE bool in_warp(int half) const { return half == 0 ? wide_.in_warp[0] : wide_.in_warp[halves - 1]; }

    /// To the next window, 64 rows or k-block; whether this was the last of its k-block.
    TILEWRIGHT_DEVICE bool go_on() {
        if (++window_ < windows_) return false;
        window_ = 0;
        if (++half_ < halves) {
            begin_half();
            return false;
        }
        half_ = 0;
        c_.advance();
        if (--left_ > 0) {
            c_.wait_full();
            begin_half();
        }
        return true;
    }

    TILEWRIGHT_DEVICE void begin_half() {
        codes_ = packed_half(c_, half_);
        windows_ = WindowsOfRows<tile>::count(codes_);
    }

    TILEWRIGHT_DEVICE void decode(Feed<tile>& feed) {
        if (window_ == 0 || in_warp(half_)) {
            feed.decode_window(c_, codes_, window_);
        } else {
            feed.clear();
        }
    }

    template <int half>
    TILEWRIGHT_DEVICE void promote_one(int i, int window, const WindowExponents& exponents) {
        float(&sums)[subtile_registers<tile>] = accumulators_[half * along_n + i];
        if (wide_.in_warp[half]) {
            promote_window<tile>(c_, sums, exponents, wide_.of_lane[half], partial_, scales_, i);
        } else if (window == 0) {
            promote<tile>(sums, partial_, scales_, i, {});
        }
    }

    Consumer<tile>& c_;
    Accumulators<tile>& accumulators_;
    const WideRows<tile>& wide_;
    Feed<tile> feeds_[2];  // only the first where nothing is decoded ahead
    Partial<tile> partial_;
    PromotionScales<tile> scales_;
    const u8* codes_ = nullptr;  // of the 64 rows under way, in their stage
    int half_ = 0;
    int window_ = 0;
    int windows_ = 1;  // of these rows
    int left_;         // k-blocks
};

}  // namespace tilewright::hopper
