// D of f32 from the accumulators, part by part in the memory where TMA has put C, for the store warp (f32_store.h).
#pragma once

#include "hopper/epilogue/convert.h"

namespace tilewright::hopper {

/// C + alpha * sum, or alpha * sum, in place of C: a warp's 16 rows of a part, whose first row and column of the
/// warpgroup's accumulators are given.
template <Tile tile>
TILEWRIGHT_DEVICE void stage_f32_rows(const Accumulators<tile>& accumulators, u8* rows, int half, int column, int lane,
                                      float alpha, bool adds) {
    constexpr int fragments = f32_part_columns() / 8;
    const int row = fragment_row(tile, lane);
    static_assert(fragment_row_step(tile) == 8);  // so that a lane's two rows are swizzled alike
    const auto place = [&](int fragment, int below) -> Pair& {
        const int chunk = fragment * 2 + lane % 4 / 2;
        return *reinterpret_cast<Pair*>(rows + (row + below * 8) * row_bytes + (chunk ^ row % 8) * 16 + lane % 2 * 8);
    };
    Pair addends[fragments][2];
    if (adds) {
#pragma unroll
        for (int i = 0; i < 2 * fragments; ++i) addends[i / 2][i % 2] = load_shared(place(i / 2, i % 2));
    }
#pragma unroll
    for (int i = 0; i < 2 * fragments; ++i) {
        const float* const sums = fragment<tile>(accumulators, half, column + i / 2 * 8) + i % 2 * 2;
        const Pair pair = f32_pair(sums, addends[i / 2][i % 2], alpha, adds);
        store_shared(place(i / 2, i % 2), pair);
    }
}

/// The warpgroup's share of a tile, scaled.
template <Tile tile>
TILEWRIGHT_DEVICE void stage_f32(Consumer<tile>& c, const Accumulators<tile>& accumulators, const WorkTile& work) {
    constexpr int slots = staging_slots(tile), parts = f32_parts(tile);
    constexpr int parts_along_n = tile.shape.n / f32_part_columns();
    const float alpha = f32_alpha_of<tile>(c.arguments, work);
    const bool adds = c.arguments.addend.data != nullptr;
    const int lane = lane_index();
    u8* const rows = c.shared.d[c.warpgroup] + c.warp * warp_rows * row_bytes;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        const int slot = part % slots, barrier = c.warpgroup * slots + slot;
        barrier_wait(c.shared.stored[barrier], c.staged.phase, {c.budget, BarrierName::stored, barrier});
        stage_f32_rows<tile>(accumulators, rows + slot * f32_part_bytes(), part / parts_along_n,
                             part % parts_along_n * f32_part_columns(), lane, alpha, adds);
        fence_async_proxy();
        sync_warp();
        warp_arrives<tile>(c.shared.staged[barrier], lane);
        if (slot == slots - 1) c.staged.advance();
    }
}

}  // namespace tilewright::hopper
