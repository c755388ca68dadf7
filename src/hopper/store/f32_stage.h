// Writes D of f32 from the accumulators to the memory where TMA has put C, part by part. The store warp stores it from
// there.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/f32_parts.h"
#include "hopper/schedule/scheduler.h"
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

/// The store warp. It stores from the stages that follow a tile's k-blocks in the ring, and then returns each stage to
/// the load warp.
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
