// 1x128 scales that TMA cannot load, in the kernels of K-major scales: f32 in any strides. A warp copies them into the
// place and order that TMA would give them, so that consumers cannot tell. By cp.async, 4 bytes at a time, as soon as a
// stage is empty: loads through registers would be late (their latency is waited for) or few (a producer has 32 or 40
// registers, four k-blocks of 256 rows are 32 for each lane).
#pragma once

#include "hopper/block/k_slice.h"
#include "hopper/block/pipeline.h"
#include "hopper/block/shared_memory.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

template <Tile tile>
class RowScaleCopies {
public:
    TILEWRIGHT_DEVICE RowScaleCopies(Shared<tile>& shared, const Arguments& arguments)
        : shared_(known_address(shared)), arguments_(arguments) {}

    /// Returns the wait budget that is left.
    TILEWRIGHT_DEVICE int run() {
        static_assert(!tile.swap_ab && !splits_k(tile) && has_row_scales(tile));
        const int k_blocks = k_slice_of<tile>(arguments_).count;
        PipelineState<tile.stages> ring{.phase = 1};
        WorkTiles<tile> tiles(shared_, arguments_);
        tiles.prepare();
        for (WorkTile work = tiles.first(budget_); work.exists != 0; work = tiles.next(budget_)) {
            for (int k_block = 0; k_block < k_blocks; ++k_block) {
                const int stage = ring.stage, lane = lane_index();
                barrier_wait(shared_.empty[stage], ring.phase, {budget_, BarrierName::empty, stage});
                const bool copies_a = k_block % k_blocks_at_once == 0;
                if (copies_a) copy_a(work, lane, stage, k_block);
                if constexpr (scales_mma_columns(tile)) copy_b(work, lane, stage, k_block);
                // The phase lacks the arrival below until all lanes have added theirs.
                if (copies_a || scales_mma_columns(tile)) barrier_arrive_after_copies(shared_.full[stage]);
                sync_warp();
                warp_arrives<tile>(shared_.full[stage], lane);
                ring.advance();
            }
        }
        return budget_;
    }

private:
    static constexpr int k_blocks_at_once = k_blocks_per_scale_copy(tile);
    static constexpr int rows_at_once = warp_threads / k_blocks_at_once;

    /// Four k-blocks of the tile's rows, eight rows at a time: few sectors where scales are adjacent along k, and few
    /// where they are along m. Rows after the end of D or of a group are left as they are, for nothing reads their
    /// sums.
    TILEWRIGHT_DEVICE void copy_a(const WorkTile& work, int lane, int stage, int k_block) {
        const ScaleView& view = arguments_.scales_a;
        const int row = work.row + lane / k_blocks_at_once;
        const int k = k_block + lane % k_blocks_at_once;
        if (k >= view.k_blocks) return;
        const float* from = address(view, work.batch, row, k);
        float* to = &shared_.mma_a_scales[stage][lane];
        const i64 step = rows_at_once * view.row_stride;
        int rows = work.row_end - row;
#pragma unroll 2
        for (int i = 0; i < tile.shape.m; i += rows_at_once) {
            if (rows > 0) copy_async(*to, from);
            rows -= rows_at_once;
            to += warp_threads;
            from += step;
        }
    }

    TILEWRIGHT_DEVICE void copy_b(const WorkTile& work, int lane, int stage, int k_block) {
        const ScaleView& view = arguments_.scales_b;
        const float* from = address(view, work.group, work.column + lane, k_block);
        const i64 step = warp_threads * view.row_stride;
#pragma unroll
        for (int column = lane; column < tile.shape.n; column += warp_threads, from += step) {
            if (work.column + column < view.rows) copy_async(shared_.mma_b_scales[stage][column], from);
        }
    }

    TILEWRIGHT_DEVICE static const float* address(const ScaleView& view, int batch, int row, int k_block) {
        return static_cast<const float*>(view.data) + batch * view.batch_stride + row * view.row_stride +
               k_block * view.k_stride;
    }

    Shared<tile>& shared_;
    const Arguments& arguments_;
    int budget_ = wait_budget;
};

}  // namespace tilewright::hopper
