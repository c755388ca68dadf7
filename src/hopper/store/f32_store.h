// The store warp of kernels for D of f32. It stores from the stages that follow a tile's k-blocks in the ring. The load
// warp put C there, and the consumers made D of it (f32_stage.h). Then this warp returns the stage to the load warp.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/f32_parts.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

template <Design design>
class F32Store {
public:
    TILEWRIGHT_DEVICE F32Store(Shared<design>& shared, const Arguments& arguments, const WorkTiles<design>& tiles)
        : shared_(shared), arguments_(arguments), tiles_(tiles) {}

    /// Returns the rest of the wait budget.
    TILEWRIGHT_DEVICE int run() {
        int stage = 0;
        for (WorkTileOf<design> work = tiles_.first(budget_); work.exists != 0; work = tiles_.next(budget_)) {
            int k_blocks = k_slice_of<design>(arguments_).count;
            if constexpr (design.is_k_grouped()) k_blocks = k_slice_of<design>(work).count;
            stage = (stage + k_blocks) % design.stages;
#pragma unroll 1
            for (int index = 0; index < F32Parts(design).stages; ++index) {
                store(work, stage, index);
                stage = stage + 1 == design.stages ? 0 : stage + 1;
            }
        }
        if (lane_index() == 0) tma_store_wait();
        return budget_;
    }

private:
    TILEWRIGHT_DEVICE void store(const WorkTileOf<design>& work, int stage, int index) {
        barrier_wait(shared_.staged[stage], phases_ >> stage & 1, {budget_, BarrierName::staged, stage});
        phases_ ^= 1U << stage;
        if (lane_index() == 0) {
            for_each_f32_part<design>(shared_, work, arguments_.m, stage, index, [&](u8* part, int column, int row) {
                tma_store_once(arguments_.d, part, column, row, work.batch);
            });
            tma_store_commit();
            tma_store_wait_read();
        }
        sync_warp();
        release(stage);
    }

    /// In place of the consumers.
    TILEWRIGHT_DEVICE void release(int stage) {
        constexpr int consumer_warps = design.shape.warpgroups * warpgroup_warps;
        if (design.debug.every_lane_arrives) {
            for (int warp = 0; warp < consumer_warps; ++warp) barrier_arrive(shared_.empty[stage]);
        } else if (lane_index() < consumer_warps) {
            barrier_arrive(shared_.empty[stage]);
        }
        sync_warp();
    }

    Shared<design>& shared_;
    const Arguments& arguments_;
    WorkTiles<design> tiles_;
    int budget_ = wait_budget;
    u32 phases_ = 0;  // one bit per stage
};

}  // namespace tilewright::hopper
