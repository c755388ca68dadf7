// Writes D of f32 from the accumulators to the memory where TMA has put C, part by part, for the store warp
// (f32_store.h).
#pragma once

#include "hopper/schedule/f32_parts.h"
#include "hopper/store/convert.h"

namespace tilewright::hopper {

/// Replaces C by C + alpha * sum, or by alpha * sum, in a warp's 16 rows of a part. `half` and `column` locate the
/// part's first row and column in the warpgroup's accumulators.
template <Design design>
TILEWRIGHT_DEVICE void stage_f32_rows(const Accumulators<design>& accumulators, u8* rows, int half, int column,
                                      int lane, float alpha, bool adds) {
    constexpr int fragments = f32_part_columns / 8;
    const int row = fragment_row(design, lane);
    static_assert(fragment_row_step(design) == 8);  // a lane's two rows have one swizzle
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
        const float* const sums = fragment<design>(accumulators, half, column + i / 2 * 8) + i % 2 * 2;
        const Pair pair = f32_pair(sums, addends[i / 2][i % 2], alpha, adds);
        store_shared(place(i / 2, i % 2), pair);
    }
}

/// The warpgroup's parts of the `index`-th stage after a tile's k-blocks, and of the stages after it. Each stage has
/// separate code, because accumulators have no addresses.
template <Design design, int index>
TILEWRIGHT_DEVICE void stage_f32_from(Consumer<design>& c, const Accumulators<design>& accumulators, float alpha,
                                      bool adds) {
    constexpr F32Parts parts(design);
    constexpr int first = index * parts.per_stage;
    const int stage = c.ring.stage;
    c.wait_full();
#pragma unroll
    for (int i = 0; i < parts.in_stage(index); ++i) {
        const int part = first + i, column = part % parts.along_n * f32_part_columns;
        u8* const rows = f32_part_at<design>(c.shared, stage, c.warpgroup, i) + c.warp * warp_rows * row_bytes;
        stage_f32_rows<design>(accumulators, rows, part / parts.along_n, column, c.lane, alpha, adds);
    }
    fence_async_proxy();
    sync_warp();
    warp_arrives<design>(c.shared.staged[stage], c.lane);
    c.ring.advance();
    if constexpr (index + 1 < parts.stages) stage_f32_from<design, index + 1>(c, accumulators, alpha, adds);
}

/// The warpgroup's share of a tile, scaled.
template <Design design>
TILEWRIGHT_DEVICE void stage_f32(Consumer<design>& c, const Accumulators<design>& accumulators,
                                 const WorkTileOf<design>& work) {
    const float alpha = f32_alpha_of<design>(c.arguments, work);
    stage_f32_from<design, 0>(c, accumulators, alpha, c.arguments.addend.data != nullptr);
}

/// The same for a warpgroup without rows.
template <Design design>
TILEWRIGHT_DEVICE void skip_f32(Consumer<design>& c) {
#pragma unroll 1
    for (int index = 0; index < F32Parts(design).stages; ++index) {
        c.wait_full();
        sync_warp();
        warp_arrives<design>(c.shared.staged[c.ring.stage], c.lane);
        c.ring.advance();
    }
}

}  // namespace tilewright::hopper
