// Stages of the ring that hold C and D of f32: their places and the parts of the tile that exist. Also the arrivals of
// warps without work for these stages.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// A warpgroup's `index`-th part in a stage.
template <Design design>
TILEWRIGHT_DEVICE u8* f32_part_at(Shared<design>& shared, int stage, int warpgroup, int index) {
    const int place = warpgroup * design.f32_parts_per_stage + index,
              in_b = place - design.mma_a.value_bytes / f32_part_bytes;
    return in_b < 0 ? shared.mma_a_values[stage] + place * f32_part_bytes
                    : shared.mma_b_values[stage] + in_b * f32_part_bytes;
}

/// Calls `visit(memory, column, row)` for each part of the tile's `index`-th stage that has rows of D.
template <Design design, class Visit>
TILEWRIGHT_DEVICE void for_each_f32_part(Shared<design>& shared, const WorkTileOf<design>& work, int m, int stage,
                                         int index, const Visit& visit) {
    constexpr int parts_along_n = design.shape.n / f32_part_columns;
#pragma unroll 1
    for (int warpgroup = 0; warpgroup < design.shape.warpgroups; ++warpgroup) {
        if (rows_of_share(design, m, work.row, warpgroup) <= 0) continue;
        for (int i = 0; i < f32_parts_of_stage(design, index); ++i) {
            const int part = index * design.f32_parts_per_stage + i;
            visit(f32_part_at<design>(shared, stage, warpgroup, i),
                  work.column + part % parts_along_n * f32_part_columns,
                  work.row + share_row(design, warpgroup) + part / parts_along_n * wgmma_m);
        }
    }
}

/// The arrivals of a warp that loads scales, for stages that hold C and not a k-block.
template <Design design>
TILEWRIGHT_DEVICE void pass_output_stages(Shared<design>& shared, PipelineState<design.stages>& ring, int& budget) {
#pragma unroll 1
    for (int index = 0; index < design.output_stages; ++index) {
        barrier_wait(shared.empty[ring.stage], ring.phase, {budget, BarrierName::empty, ring.stage});
        if (budget >= 0) warp_arrives<design>(shared.full[ring.stage], lane_index());
        ring.advance();
    }
}

}  // namespace tilewright::hopper
