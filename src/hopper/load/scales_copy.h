// Copies 1x128 scales that TMA cannot load, in kernels for scales along k and for D of f32: f32 scales in any strides.
// A warp copies them to the place and in the order that TMA would use, so that consumers see no difference. It uses
// cp.async, 4 bytes at a time, as soon as a stage is empty. Loads through registers would be late, because their
// latency is waited for, or few. (A producer has 32 or 40 registers; four k-blocks of 256 rows are 32 scales per lane.)
#pragma once

#include "hopper/block/ring.h"
#include "hopper/load/finish_k_blocks.h"
#include "hopper/schedule/f32_parts.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// A lane's part of the scales of one operand's tile of `size` rows. `k_blocks` k-blocks are copied at a time: one
/// k-block of 32 rows, or four k-blocks of eight rows. The latter touches few sectors both for scales adjacent along k
/// and for scales adjacent along m.
template <int size, int k_blocks>
class ScaleCopies {
public:
    ScaleCopies() = default;
    /// Rows from `end` on are not written, because nothing reads their sums.
    TILEWRIGHT_DEVICE ScaleCopies(const ScaleView& view, int batch, int row, int end, int k_block, int k_end, int lane)
        : rows_(min(end - row, size) - lane / k_blocks), k_blocks_(k_end - k_block - lane % k_blocks) {
        const i64 index = batch * view.batch_stride + (row + lane / k_blocks) * view.row_stride +
                          (k_block + lane % k_blocks) * view.k_stride;
        from_ = static_cast<const float*>(view.data) + index;
    }

    /// Starts the copies of the next k-blocks. The lane's first place is `first`, and a row has `step` floats.
    template <int step>
    TILEWRIGHT_DEVICE void start(float* to, const ScaleView& view, int first) {
        constexpr int rows_at_once = warp_threads / k_blocks;
        const float* from = from_;
        const int rows = k_blocks == 1 || k_blocks_ > 0 ? rows_ : 0;
        from_ += k_blocks * view.k_stride;
        k_blocks_ -= k_blocks;
#pragma unroll 2
        for (int i = 0; i < size; i += rows_at_once, from += rows_at_once * view.row_stride) {
            if (i < rows) copy_async(to[i * step + first], from);
        }
    }

private:
    const float* from_ = nullptr;
    int rows_ = 0;      // rows from the lane's first one on
    int k_blocks_ = 0;  // k-blocks from the lane's first one on
};

template <Design design>
class RowScaleCopies : KBlockFinish<design> {
public:
    TILEWRIGHT_DEVICE RowScaleCopies(Shared<design>& shared, const ArgumentsOf<design>& arguments,
                                     const WorkTiles<design>& tiles)
        : KBlockFinish<design>(shared, arguments),
          shared_(known_address(shared)),
          arguments_(arguments),
          tiles_(tiles),
          slice_(k_slice_of<design>(arguments)) {}

    /// Starts the first k-block's copies ahead of the initialisation of the block's barriers, when its values are
    /// requested.
    TILEWRIGHT_DEVICE void begin() {
        const WorkTileOf<design> work = tiles_.first(budget_);
        if (work.exists == 0 || slice_.count == 0) return;
        begin_tile(work);
        if constexpr (at_once > 1) {
            start_four();
        } else {
            start(0, 0, lane_index());
        }
        has_first_ = true;
    }

    /// Copies the scales of all other k-blocks. Returns the rest of the wait budget.
    TILEWRIGHT_DEVICE int run() {
        static_assert(design.order.has(ScaleUse::chains));
        if constexpr (at_once > 1) return run_in_fours();
        PipelineState<design.stages> ring{.phase = 1};
        for (WorkTileOf<design> work = tiles_.first(budget_); work.exists != 0; work = tiles_.next(budget_)) {
            if constexpr (design.is_k_grouped()) slice_ = k_slice_of<design>(work);
            if (!has_first_) begin_tile(work);
            for (int i = 0; i < slice_.count; ++i) {
                const int stage = ring.stage, lane = lane_index();
                const bool has_copies = has_first_;
                has_first_ = false;
                if (!has_copies) barrier_wait(shared_.empty[stage], ring.phase, {budget_, BarrierName::empty, stage});
                const bool goes_on = budget_ >= 0;  // after a time-out the phase has all of its arrivals
                if (goes_on && !has_copies) start(stage, i, lane);
                // Until all lanes have added their arrivals, the phase lacks the arrival below.
                if (goes_on && (copies_a(i) || copies_b)) barrier_arrive_after_copies(shared_.full[stage]);
                sync_warp();
                if (goes_on) warp_arrives<design>(shared_.full[stage], lane);
                ring.advance();
                this->after_k_block(stage, i, work, tiles_, budget_);
            }
            this->after_tile(ring.previous(), work, budget_);
            pass_output_stages<design>(shared_, ring, budget_);
        }
        return budget_;
    }

private:
    static constexpr bool copies_b = design.operand_b().scales_of_row > 0;
    /// k-blocks whose stages are filled together, if the ring is at least twice as deep. If scales are adjacent along
    /// k, four k-blocks at once touch a quarter of the places in memory. A copy takes some 6 clocks per place
    /// (docs/experiments/007-k-major-scales.md). Swap-AB tiles become up to 14 % faster. Other tiles with one warpgroup
    /// become 4 % slower, because their copies start later.
    static constexpr int at_once =
        design.swap_ab && design.stages >= 8 && !design.is_k_grouped() && !copies_b && design.scales_along_k ? 4 : 1;
    TILEWRIGHT_DEVICE static bool copies_a(int i) { return i % design.k_blocks_per_scale_copy == 0; }

    TILEWRIGHT_DEVICE void begin_tile(const WorkTileOf<design>& work) {
        const ScaleView &a = arguments_.scales_a, &b = arguments_.scales_b;
        const int lane = lane_index();
        const int k_end = at_once > 1 ? slice_.begin + slice_.count : a.k_blocks;
        int row_end = a.rows;
        if constexpr (!design.is_k_grouped()) row_end = work.row_end;
        a_ = {a, work.batch, work.row, row_end, slice_.begin, k_end, lane};
        if constexpr (copies_b) b_ = {b, work.matrix_of_b(), work.column, b.rows, slice_.begin, b.k_blocks, lane};
    }

    /// Starts the copies for the slice's i-th k-block.
    TILEWRIGHT_DEVICE void start(int stage, int i, int lane) {
        constexpr int step = design.k_blocks_per_scale_copy;
        if (copies_a(i)) a_.template start<step>(shared_.scales_of_a(stage), arguments_.scales_a, lane);
        if constexpr (copies_b) b_.template start<1>(shared_.scales_of_b(stage), arguments_.scales_b, lane);
    }

    /// Starts the copies of the next four k-blocks, whose stages are empty. Each lane copies into the stage of its
    /// k-block.
    TILEWRIGHT_DEVICE void start_four() {
        const int lane = lane_index();
        int stage = fours_.stage + lane % at_once;
        if (stage >= design.stages) stage -= design.stages;
        a_.template start<1>(shared_.scales_of_a(stage), arguments_.scales_a, lane / at_once);
    }

    TILEWRIGHT_DEVICE int run_in_fours() {
        for (WorkTileOf<design> work = tiles_.first(budget_); work.exists != 0; work = tiles_.next(budget_)) {
            if (!has_first_) begin_tile(work);
            for (int left = slice_.count; left > 0; left -= at_once) {
                const int count = min(left, at_once);
                if (!has_first_) {
                    wait_empty(count);
                    if (budget_ >= 0) start_four();
                }
                has_first_ = false;
                for (int i = 0; i < count; ++i) {
                    // As in `run`.
                    if (budget_ >= 0) barrier_arrive_after_copies(shared_.full[fours_.stage]);
                    sync_warp();
                    if (budget_ >= 0) warp_arrives<design>(shared_.full[fours_.stage], lane_index());
                    fours_.advance();
                }
            }
        }
        return budget_;
    }

    /// Waits for the stages of the next `count` k-blocks.
    TILEWRIGHT_DEVICE void wait_empty(int count) {
        PipelineState<design.stages> ring = fours_;
        for (int i = 0; i < count; ++i, ring.advance()) {
            barrier_wait(shared_.empty[ring.stage], ring.phase, {budget_, BarrierName::empty, ring.stage});
        }
    }

    Shared<design>& shared_;
    const ArgumentsOf<design>& arguments_;
    WorkTiles<design> tiles_;
    KSlice slice_;
    ScaleCopies<design.d_rows, max(design.k_blocks_per_scale_copy, at_once)> a_;
    ScaleCopies<design.d_columns, 1> b_;
    PipelineState<design.stages> fours_{.phase = 1};  // the position of `run_in_fours`
    bool has_first_ = false;  // `begin` has started the copies of the first tile's first k-blocks
    int budget_ = wait_budget;
};

}  // namespace tilewright::hopper
