// Divides a warpgroup's share into subtiles of 64 rows and wgmma_n columns, one wgmma each.
#pragma once

#include "hopper/tile/budget.h"
#include "hopper/tile/feeds.h"

namespace tilewright::hopper {

/// Products that a partial accumulator adds until it is promoted to fp32 registers; 0: all of k.
constexpr int promotion_interval(const Tile& tile) {
    if (promotes_each_step(tile)) return step_k;
    return scales_in_mainloop(tile) || tile.mma.promoted ? 128 : 0;
}

/// Rows of mma A that a feed holds in registers at once. Without promotion, all subtiles of a k-block are issued
/// together.
constexpr int held_rows(const Tile& tile) { return promotion_interval(tile) == 0 ? rows_per_warpgroup(tile) : wgmma_m; }

// ---- Registers per consumer thread

constexpr int accumulator_registers(const Tile& tile) {
    return rows_per_warpgroup(tile) * tile.shape.n / warpgroup_threads;
}
/// One partial accumulator, the registers that feed its wgmmas, and the scales of its columns, which are read in
/// advance.
constexpr int registers_per_partial(const Tile& tile, int wgmmas_along_n) {
    const int columns = tile.shape.n / wgmmas_along_n;
    return columns / 2 + feed_registers(tile) + (scales_mma_columns(tile) ? columns / 4 : 0);
}
/// For promotion per step: two partial accumulators, the fragments that feed them, and the scales of one's columns.
/// Both halves of 128 rows share these scales. (A k-block's values count among the other registers of a thread.)
constexpr int stepwise_registers(const Tile& tile, int wgmmas_along_n) {
    const int columns = tile.shape.n / wgmmas_along_n;
    const int fragments = feeds_registers(tile) ? wgmmas_in_step(tile) * fragment_words : 0;
    return 2 * (columns / 2 + fragments) + (scales_mma_columns(tile) ? columns / 4 : 0);
}
/// Wide rows with bf16: the fragments, and a partial accumulator or the saved sums of a subtile in its place.
constexpr int wide_row_registers(const Tile& tile, int wgmmas_along_n) {
    return tile.shape.n / wgmmas_along_n / 2 + held_rows(tile) / wgmma_m * feed_registers(tile);
}
/// If accumulators are promoted, n is halved until a partial accumulator fits in addition. (Two of them, one promoted
/// while the next is multiplied, gained nothing: docs/experiments/004-one-accumulator.md.)
constexpr int wgmmas_along_n(const Tile& tile) {
    if (promotion_interval(tile) == 0 && !has_wide_rows(tile)) return 1;
    int count = 1;
    const auto fits = [&] {
        const int partial = promotes_each_step(tile) ? stepwise_registers(tile, count)
                            : has_wide_rows(tile)    ? wide_row_registers(tile, count)
                                                     : registers_per_partial(tile, count);
        return accumulator_registers(tile) + partial <= mma_register_budget(tile);
    };
    while (count < 4 && !fits() && tile.shape.n % (16 * count) == 0) count *= 2;
    return count;
}
constexpr int wgmma_n(const Tile& tile) { return tile.shape.n / wgmmas_along_n(tile); }
constexpr int subtiles_per_warpgroup(const Tile& tile) {
    return rows_per_warpgroup(tile) / wgmma_m * wgmmas_along_n(tile);
}
/// Partial accumulators that the tensor core works on at once (mainloop/two_partials.h). Several subtiles, or several
/// warpgroups, fill each other's pauses. The pauses of swap-AB tiles, which read column scales or decode, are longer.
constexpr int partials_in_flight(const Tile& tile) {
    const bool one_subtile = subtiles_per_warpgroup(tile) == 1;
    const bool decodes = has_packed_weights(tile);
    const bool pauses = scales_in_mainloop(tile) && promotion_interval(tile) == tile.shape.k &&
                        (tile.shape.n * tile.shape.warpgroups <= 192 || decodes);
    const int decoding = decodes ? 16 : 0;  // values, scales and tables
    const int needed = accumulator_registers(tile) + 2 * registers_per_partial(tile, 1) + decoding;
    const bool alone = tile.shape.warpgroups == 1 || tile.swap_ab;
    return one_subtile && pauses && alone && feed_of(tile) != FeedKind::transposed &&
                   needed <= mma_register_budget(tile)
               ? 2
               : 1;
}
/// Registers beyond the budget that two feeds may take, or that they must leave free. This is for kernels that scale
/// MN-major operands in their loop, as NVRTC 13.0 compiles them. Fast ones of 256x128 do not spill with 8 more
/// registers; others must leave 8 of the budget free.
constexpr int spare_registers(const Tile& tile) {
    if (feed_of(tile) != FeedKind::transposed || !scales_in_mainloop(tile)) return 0;
    return is_fast(tile) && rows_per_warpgroup(tile) > wgmma_m && wgmmas_along_n(tile) > 1 ? 8 : -8;
}
/// Whether the fragments of the next 64 rows are made in other registers while these rows are multiplied
/// (mainloop/fill_next.h).
constexpr bool fills_next(const Tile& tile) {
    const FeedKind feed = feed_of(tile);
    const bool fills = feed == FeedKind::decoded || feed == FeedKind::windowed || feed == FeedKind::transposed;
    if (!fills) return false;
    if (promotes_each_step(tile) || promotion_interval(tile) == 0 || loads_scales_by_four(tile)) return false;
    const int needed =
        accumulator_registers(tile) + registers_per_partial(tile, wgmmas_along_n(tile)) + feed_registers(tile);
    return partials_in_flight(tile) == 1 && needed <= mma_register_budget(tile) + spare_registers(tile);
}
/// The same for warpgroups with wide rows. They also hold the exponents of windows, and the column scales if these are
/// epilogue scales for other rows.
constexpr bool fills_next_of_windows(const Tile& tile) {
    if (feed_of(tile) != FeedKind::windowed || promotes_each_step(tile)) return false;
    constexpr int exponents = 8;
    const int columns = wgmma_n(tile);
    const int needed = accumulator_registers(tile) + columns / 2 + columns / 4 + 2 * feed_registers(tile) + exponents;
    return needed <= mma_register_budget(tile);
}
constexpr int partial_registers(const Tile& tile) {
    if (promotes_each_step(tile)) return stepwise_registers(tile, wgmmas_along_n(tile));
    // Without promotion, a k-block's wgmmas are issued while the previous k-block's wgmmas run.
    const int unpromoted = 2 * held_rows(tile) / wgmma_m * feed_registers(tile);
    if (has_wide_rows(tile)) return max(unpromoted, wide_row_registers(tile, wgmmas_along_n(tile)));
    if (promotion_interval(tile) == 0) return unpromoted;
    return partials_in_flight(tile) * registers_per_partial(tile, wgmmas_along_n(tile));
}
constexpr int mma_registers(const Tile& tile) { return accumulator_registers(tile) + partial_registers(tile); }

/// Whether the scales of a subtile's columns are read while the previous subtile is promoted (mainloop/stepwise.h).
/// This needs registers for the scales of both subtiles. Windows leave none.
constexpr bool reads_scales_ahead(const Tile& tile) {
    const int others = scales_mma_columns(tile) ? wgmma_n(tile) / 4 : 0;
    return promotes_each_step(tile) && !has_windows(tile) && mma_registers(tile) + others <= mma_register_budget(tile);
}

/// Whether the promoted loop takes k-blocks in fours without an exit (mainloop/promoted.h). Three kinds of tiles do
/// not. With K-major scales the compiler would read the scales of all four k-blocks ahead, for which there are not
/// enough registers. Without scales it moves partial sums. With swap-AB a k-block's 128x128 scale is needed until its
/// promotion, but the loop reads the next scale earlier.
constexpr bool multiplies_in_fours(const Tile& tile) {
    return subtiles_per_warpgroup(tile) == 1 && partials_in_flight(tile) == 1 && scales_in_mainloop(tile) &&
           !loads_scales_by_four(tile) && !tile.swap_ab;
}

/// Whether D leaves the registers subtile by subtile, each while the next tile's wgmma that replaces it runs. Loops in
/// fours exclude this and gain more. Grouped tiles gained nothing from it.
constexpr bool overlaps_epilogue(const Tile& tile) {
    const bool whole =
        multiplies_in_fours(tile) || (partials_in_flight(tile) == 2 && !tile.swap_ab) || fills_next(tile);
    return is_fast(tile) && !stores_f32(tile) && !has_scheduler(tile) && !splits_k(tile) && !has_windows(tile) &&
           promotion_interval(tile) != 0 && wgmma_n(tile) % 16 == 0 && !whole;
}

}  // namespace tilewright::hopper
