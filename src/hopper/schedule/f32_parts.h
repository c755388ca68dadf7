// D of f32 leaves through the ring of k-blocks: after a tile's k-blocks some stages hold C, which is replaced by D.
// Here are the parts of D in these stages, their places, and the arrivals of warps without work for these stages.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// A part has 64 rows and 32 columns of a warpgroup's share.
inline constexpr int f32_part_columns = store_row_bytes / 4;
inline constexpr int f32_part_bytes = wgmma_m * store_row_bytes;

struct F32Parts {
    int along_n;
    int in_share;
    // A stage has parts in the values of mma A first, then in those of mma B.
    int in_values_of_a;
    int per_stage;  // per warpgroup
    int stages;     // that hold a tile of C and D

    constexpr explicit F32Parts(const Design& design)
        : along_n(design.shape.n / f32_part_columns),
          in_share(design.rows_per_warpgroup / wgmma_m * along_n),
          in_values_of_a(design.mma_a.value_bytes / f32_part_bytes),
          per_stage((in_values_of_a + design.mma_b.value_bytes / f32_part_bytes) / design.shape.warpgroups),
          stages(design.output == Output::f32_by_tma ? ceil_div(in_share, per_stage) : 0) {}

    /// Parts per warpgroup in the `index`-th of these stages.
    constexpr int in_stage(int index) const { return min(in_share - index * per_stage, per_stage); }
};

/// A warpgroup's `index`-th part in a stage.
template <Design design>
TILEWRIGHT_DEVICE u8* f32_part_at(Shared<design>& shared, int stage, int warpgroup, int index) {
    constexpr F32Parts parts(design);
    const int place = warpgroup * parts.per_stage + index, in_b = place - parts.in_values_of_a;
    return in_b < 0 ? shared.mma_a_values[stage] + place * f32_part_bytes
                    : shared.mma_b_values[stage] + in_b * f32_part_bytes;
}

/// Calls `visit(memory, column, row)` for each part of the tile's `index`-th stage that has rows of D.
template <Design design, class Visit>
TILEWRIGHT_DEVICE void for_each_f32_part(Shared<design>& shared, const WorkTileOf<design>& work, int m, int stage,
                                         int index, const Visit& visit) {
    constexpr F32Parts parts(design);
#pragma unroll 1
    for (int warpgroup = 0; warpgroup < design.shape.warpgroups; ++warpgroup) {
        if (!has_rows<design>(work, m, warpgroup)) continue;
        for (int i = 0; i < parts.in_stage(index); ++i) {
            const int part = index * parts.per_stage + i;
            visit(f32_part_at<design>(shared, stage, warpgroup, i),
                  work.column + part % parts.along_n * f32_part_columns,
                  work.row + warpgroup * design.rows_per_warpgroup + part / parts.along_n * wgmma_m);
        }
    }
}

/// The arrivals of a warp that loads scales, for stages that hold C and not a k-block.
template <Design design>
TILEWRIGHT_DEVICE void pass_output_stages(Shared<design>& shared, PipelineState<design.stages>& ring, int& budget) {
#pragma unroll 1
    for (int index = 0; index < F32Parts(design).stages; ++index) {
        barrier_wait(shared.empty[ring.stage], ring.phase, {budget, BarrierName::empty, ring.stage});
        if (budget >= 0) warp_arrives<design>(shared.full[ring.stage], lane_index());
        ring.advance();
    }
}

}  // namespace tilewright::hopper
