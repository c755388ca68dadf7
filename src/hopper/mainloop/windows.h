// The mainloop of packed weights with wide rows: a k-block is multiplied window by window, and each partial accumulator
// is promoted by factors of its rows (docs/numerics.md). Rows that are not wide have one window and factors of 1, which
// leave their bits as every other kernel has them.
#pragma once

#include "hopper/mainloop/feed.h"
#include "hopper/mainloop/promoted.h"

namespace tilewright::hopper {

/// The scale of the tokens that an element of a wide row is promoted by, also where that of other rows waits for the
/// end. `column`: of the tile.
template <Tile tile>
TILEWRIGHT_DEVICE Pair token_scales(const Consumer<tile>& c, const PromotionScales<tile>& scales, int subtile, int j) {
    if constexpr (scales_mma_columns(tile)) return {scales.column[2 * j], scales.column[2 * j + 1]};
    const int column = subtile % wgmmas_along_n(tile) * wgmma_n(tile) + j * 8 + c.lane % 4 * 2;
    const float* const pair = &c.shared.column_scales[c.epilogue_scales.stage][column];
    return load_shared(*reinterpret_cast<const Pair*>(pair));
}

/// accumulator = fma(partial * factor, scale * factor, accumulator), in rows that have the window.
template <Tile tile>
TILEWRIGHT_DEVICE void promote_window(const Consumer<tile>& c, float (&accumulator)[subtile_registers<tile>],
                                      const Partial<tile>& partial, const PromotionScales<tile>& scales, int subtile,
                                      const WindowFactors (&rows)[2], u32 wide) {
#pragma unroll
    for (int j = 0; j < subtile_registers<tile> / 4; ++j) {
        const Pair columns = token_scales<tile>(c, scales, subtile, j);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const WindowFactors& row = rows[i / 2];
            const bool scaled = scales_mma_columns(tile) || (wide >> i / 2 & 1) != 0;
            const float scale = scaled ? (i % 2 == 0 ? columns.x : columns.y) : 1.0F;
            float& sum = accumulator[4 * j + i];
            sum = row.given ? fma(partial[4 * j + i] * row.of_sum, scale * row.of_scale, sum) : sum;
        }
    }
}

/// A subtile of a k-block, one window after the other.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_windows(Consumer<tile>& c, float (&accumulator)[subtile_registers<tile>],
                                        Feed<tile>& feed, Partial<tile>& partial, PromotionScales<tile>& scales,
                                        int subtile) {
    const PackedRows<tile> rows(c, subtile);
    scales.read_columns(c, subtile);
#pragma unroll 1
    for (u32 window = 0; window < rows.windows; ++window) {
        feed.load(c, rows, subtile, window);
        WindowFactors factors[2];
        rows.read_factors(factors, window);
        pin(partial);
        feed.issue(c, partial, subtile, false);
        wgmma_commit();
        wgmma_wait<0>();
        pin(partial);
        feed.complete();
        if (rows.any_wide) {
            promote_window<tile>(c, accumulator, partial, scales, subtile, factors, rows.wide);
        } else {
            promote<tile>(accumulator, partial, scales, subtile, {});
        }
    }
}

/// All k-blocks of a tile.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_windows(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    Feed<tile> feed(c);
    Partial<tile> partial;
    PromotionScales<tile> scales;
    clear<tile>(accumulators);
    if constexpr (!scales_mma_columns(tile)) wait_epilogue_scales<tile>(c);
#pragma unroll 1
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        c.wait_full();
#pragma unroll
        for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
            multiply_windows<tile>(c, accumulators[subtile], feed, partial, scales, subtile);
        }
        c.release(c.ring.stage);
        c.ring.advance();
    }
    sync_warp();
}

}  // namespace tilewright::hopper
