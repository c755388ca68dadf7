// The consumers' main loop: a warpgroup multiplies its rows of the tile, k-block by k-block.
#pragma once

#include "hopper/mainloop/scales_promote.h"

namespace tilewright::hopper {

/// Which k-block of its tile it is; known to the compiler.
struct Step {
    bool first = false;  // of its tile
    int in_four = 0;
};

/// All of one row, then all of the other: a factor that the next instruction uses again is not read again, and the
/// tensor core reads and writes the same registers' banks.
template <Tile tile>
TILEWRIGHT_DEVICE void promote(float (&sum)[unit_registers<tile>], const Chain<tile>& chain,
                               const Factors<tile>& factors, int unit, const Step& step) {
    const int in_chunk = step.in_four % k_blocks_per_scale_copy(tile);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
        for (int i = 0; i < unit_registers<tile> / 2; ++i) {
            const int j = i / 2, index = 4 * j + 2 * row + i % 2;
            const float before = step.first ? 0.0F : sum[index];
            if constexpr (scales_in_mainloop(tile)) {
                sum[index] = fma(chain[index], factors.of(unit, in_chunk, j, 2 * row + i % 2), before);
            } else {
                sum[index] = before + chain[index];
            }
        }
    }
}

/// One k-block through all units. `store_unit(unit)`: what to do with the unit's sums of the last tile while the first
/// products of this one run. `exists`: false when there is no tile; the products are then of whatever lies there and
/// never looked at, because a wgmma under a condition would be serialised.
template <Tile tile, class StoreUnit>
TILEWRIGHT_DEVICE void multiply_block(Consumer<tile>& c, Sums<tile>& sums, Chain<tile>& chain, Factors<tile>& factors,
                                      int k_block, const Step& step, bool exists, const StoreUnit& store_unit) {
    constexpr bool by_row = has_k_major_scales(tile);
    // Behind narrow products, which are soon done, scales would come late.
    constexpr bool rows_first = !by_row && (scales_mma_columns(tile) || wgmma_n(tile) < 64);
    const int stage = c.ring.place, in_chunk = step.in_four % k_blocks_per_scale_copy(tile);
    if (exists) c.wait_full();
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) {
        factors.read_columns(c, unit);
        if constexpr (rows_first) factors.read_rows(c, stage, unit);
        pin(chain);
        wgmma_fence();
        c.issue(chain, unit, false);
        wgmma_commit();
        if (unit == 0 && exists && (step.first || (by_row && in_chunk == 0))) {
            next_block_scales(c, k_block);
            factors.read_blocks(c, k_block);
        }
        store_unit(unit);
        if (unit == units<tile> - 1 && exists) c.advance();
        if (!rows_first && in_chunk == 0 && unit % wgmmas_along_n(tile) == 0) factors.read_rows(c, stage, unit);
        factors.combine(unit, in_chunk);
        wgmma_wait<0>();
        pin(chain);
        // Before the promotion: the sooner, the earlier the load that is a ring's length ahead.
        if (unit == units<tile> - 1 && exists) c.release_previous();
        promote<tile>(sums[unit], chain, factors, unit, step);
    }
    if (!by_row && k_block + 1 < c.k_blocks) {
        if (step.in_four == 3) next_block_scales(c, k_block + 1);
        factors.read_blocks(c, k_block + 1);
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE void clear(Sums<tile>& sums) {
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) {
#pragma unroll
        for (int i = 0; i < unit_registers<tile>; ++i) sums[unit][i] = 0;
    }
}

/// The k-blocks after the first. Sums of 128 products leave the tensor core for fp32 registers. Unrolled, so that what
/// surrounds a k-block hides under the promotion of the one before.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_promoted(Consumer<tile>& c, Sums<tile>& sums, Chain<tile>& chain,
                                         Factors<tile>& factors) {
    constexpr int unrolled = 4;
    for (int k_block = 1; k_block < c.k_blocks;) {
#pragma unroll
        for (int i = 1; i <= unrolled; ++i) {
            multiply_block<tile>(c, sums, chain, factors, k_block, {.in_four = i % 4}, true, [](int) {});
            if (++k_block == c.k_blocks) break;  // a second loop for the rest would cost moves and spills
        }
    }
    sync_warp();  // without it one kernel spills
    release_block_scales(c);
}

/// All of k in the tensor core: the next k-block is issued before the last one has finished.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_unpromoted(Consumer<tile>& c, Sums<tile>& sums) {
    clear<tile>(sums);
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        c.wait_full();
#pragma unroll
        for (int unit = 0; unit < units<tile>; ++unit) pin(sums[unit]);
        wgmma_fence();
#pragma unroll
        for (int unit = 0; unit < units<tile>; ++unit) c.issue(sums[unit], unit, k_block > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (k_block > 0) c.release_previous();
        c.ring.advance();
    }
    wgmma_wait<0>();
    if (c.k_blocks > 0) c.release_previous();
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) pin(sums[unit]);
}

/// A tile in which this warpgroup has no row: its stages are given back, and the tensor core is left to the others.
template <Tile tile>
TILEWRIGHT_DEVICE void pass_over(Consumer<tile>& c) {
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        next_block_scales(c, k_block);
        c.wait_full();
        sync_warp();  // no product keeps the lanes together here
        c.release(c.ring.place);
        c.ring.advance();
    }
    if (c.k_blocks > 0) release_block_scales(c);
}

}  // namespace tilewright::hopper
