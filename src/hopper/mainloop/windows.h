// The mainloops of packed weights with wide rows: a k-block is multiplied window by window, and each partial
// accumulator is promoted by factors of its rows (docs/numerics.md). Rows that are not wide have one window and factors
// of 1, which leave their bits as every other kernel has them. The first window goes through the loops of other
// kernels, for most k-blocks of most tiles have no more; further ones wait for each other.
#pragma once

#include "hopper/mainloop/feed.h"
#include "hopper/mainloop/promoted.h"
#include "hopper/mainloop/two_partials.h"

namespace tilewright::hopper {

/// The scale of the tokens that an element of a wide row is promoted by, also where that of other rows waits for the
/// end. `column`: of the tile.
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
                                      const WindowFactors (&factors)[2], u32 wide, const Partial<tile>& partial,
                                      const PromotionScales<tile>& scales, int subtile) {
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

template <Tile tile>
TILEWRIGHT_DEVICE void promote_window(const Consumer<tile>& c, float (&accumulator)[subtile_registers<tile>],
                                      const PackedRows<tile>& rows, const Partial<tile>& partial,
                                      const PromotionScales<tile>& scales, int subtile, u32 window) {
    WindowFactors factors[2];
    rows.read_factors(factors, window);
    promote_window<tile>(c, accumulator, factors, rows.wide, partial, scales, subtile);
}

/// A subtile whose first window has been multiplied: promotes it, and multiplies and promotes the others.
template <Tile tile>
TILEWRIGHT_DEVICE void finish_windows(Consumer<tile>& c, float (&accumulator)[subtile_registers<tile>],
                                      Feed<tile>& feed, Partial<tile>& partial, const PromotionScales<tile>& scales,
                                      int subtile) {
    pin(partial);
    feed.complete();
    if (feed.rows.any_wide) {
        promote_window<tile>(c, accumulator, feed.rows, partial, scales, subtile, 0);
    } else {
        promote<tile>(accumulator, partial, scales, subtile, {});
    }
#pragma unroll 1
    for (u32 window = 1; window < feed.rows.windows; ++window) {
        sync_warp();  // rows of a lane may have been promoted or not
        pin(partial);
        feed.issue_further(c, partial, subtile, window);
        wgmma_commit();
        wgmma_wait<0>();
        pin(partial);
        feed.complete();
        if (feed.rows.any_wide) promote_window<tile>(c, accumulator, feed.rows, partial, scales, subtile, window);
    }
    sync_warp();
}

/// All k-blocks of a tile, one partial accumulator for all subtiles.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_windows_in_turn(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    Feed<tile> feed(c);
    Partial<tile> partial;
    PromotionScales<tile> scales;
#pragma unroll 1
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        c.wait_full();
#pragma unroll
        for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
            scales.read_columns(c, subtile);
            pin(partial);
            feed.issue(c, partial, subtile, false);
            wgmma_commit();
            wgmma_wait<0>();
            finish_windows<tile>(c, accumulators[subtile], feed, partial, scales, subtile);
        }
        c.release(c.ring.stage);
        c.ring.advance();
    }
}

/// A k-block of a tile with two partial accumulators, and whether it has been promoted.
template <Tile tile>
struct WindowsInFlight : InFlight<tile> {
    using InFlight<tile>::InFlight;
    bool promoted = true;
};

template <Tile tile>
TILEWRIGHT_DEVICE void finish_windows(Consumer<tile>& c, Accumulators<tile>& accumulators,
                                      WindowsInFlight<tile>& block) {
    if (!block.promoted) finish_windows<tile>(c, accumulators[0], block.feed, block.partial, block.scales, 0);
    block.promoted = true;
}

/// Issues the k-block in `c.ring`, then promotes the one before it. One with further windows is finished at once.
template <Tile tile>
TILEWRIGHT_DEVICE void step(Consumer<tile>& c, Accumulators<tile>& accumulators, WindowsInFlight<tile>& block,
                            WindowsInFlight<tile>& before, int stage_before) {
    issue<tile>(c, block);
    block.scales.read_columns(c, 0);
    block.promoted = false;
    wgmma_wait<1>();
    if (stage_before >= 0) c.release(stage_before);
    finish_windows<tile>(c, accumulators, before);
    if (block.feed.rows.windows > 1) {
        wgmma_wait<0>();
        finish_windows<tile>(c, accumulators, block);
    }
}

/// All k-blocks of a tile with one subtile: the first window of the next is multiplied while this one is promoted.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_windows_ahead(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    WindowsInFlight<tile> even(c), odd(c);
    int stage_before = -1;
    const auto next = [&](WindowsInFlight<tile>& block, WindowsInFlight<tile>& before) {
        step<tile>(c, accumulators, block, before, stage_before);
        stage_before = c.ring.stage;
        c.advance();
    };
    int k_block = 0;
#pragma unroll 1
    for (; k_block + 1 < c.k_blocks; k_block += 2) {
        next(even, odd);
        next(odd, even);
    }
    const auto last = [&](WindowsInFlight<tile>& block) {
        wgmma_wait<0>();
        if (stage_before >= 0) c.release(stage_before);
        finish_windows<tile>(c, accumulators, block);
    };
    if (k_block < c.k_blocks) {
        next(even, odd);
        last(even);
    } else {
        last(odd);
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE void multiply_windows(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    clear<tile>(accumulators);
    if constexpr (!scales_mma_columns(tile)) wait_epilogue_scales<tile>(c);
    if constexpr (partials_in_flight(tile) == 2) {
        multiply_windows_ahead<tile>(c, accumulators);
    } else {
        multiply_windows_in_turn<tile>(c, accumulators);
    }
    sync_warp();
}

}  // namespace tilewright::hopper
