// Loads scales of the mainloop by ordinary loads, if TMA cannot load them. The stage of a k-block gets its 1x128 scales
// (kernels for scales along k: scales_copy.h) or its 1x32 scales (step_scales.h). It also gets the 128x128 scales of A,
// once per row.
#pragma once

#include "base/math.h"
#include "hopper/block/ring.h"
#include "hopper/block/scale_view.h"
#include "hopper/load/finish_k_blocks.h"
#include "hopper/load/step_scales.h"
#include "hopper/schedule/f32_parts.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// The warp that loads 1x128 and 1x32 scales. It reads several k-blocks at once, so that the reads of a row share
/// sectors, while the earlier stages are still multiplied.
template <Design design>
class RowScales : KBlockFinish<design> {
public:
    /// As many as the producer's registers hold.
    static constexpr int k_blocks_at_once() {
        constexpr int held = design.shape.warpgroups > 2 ? 8 : 20;  // words of 1x32 scales
        if (design.order.chain == step_k) return 4 * rows_each() <= held ? 4 : 2 * rows_each() <= held ? 2 : 1;
        if (design.shape.warpgroups > 2 || design.groups == Groups::k_anywhere) return 1;
        return design.swap_ab && design.mma_a.scales_of_row == 0 ? 4 : 2;
    }

    TILEWRIGHT_DEVICE RowScales(Shared<design>& shared, const ArgumentsOf<design>& arguments)
        : KBlockFinish<design>(shared, arguments), shared_(shared), arguments_(arguments) {}

    /// Returns the rest of the wait budget.
    TILEWRIGHT_DEVICE int run() {
        KSlice slice = k_slice_of<design>(arguments_);
        int end = slice.begin + slice.count;
        const int thread = lane_index();
        PipelineState<design.stages> ring{.phase = 1};
        WorkTiles<design> tiles(shared_, arguments_);
        tiles.prepare();
        for (WorkTileOf<design> work = tiles.first(budget_); work.exists != 0; work = tiles.next(budget_)) {
            if constexpr (design.is_k_grouped()) {
                slice = k_slice_of<design>(work);
                end = slice.begin + slice.count;
            }
            for (int begin = slice.begin; begin < end; begin += k_blocks_of_read()) {
                read(work, thread, begin);
#pragma unroll
                for (int i = 0; i < k_blocks_at_once(); ++i) {
                    if (i >= k_blocks_of_read() || begin + i >= end) break;
                    write(ring, thread, begin + i, values_[i]);
                    this->after_k_block(ring.previous(), begin + i - slice.begin, work, tiles, budget_);
                }
            }
            this->after_tile(ring.previous(), work, budget_);
            pass_output_stages<design>(shared_, ring, budget_);
        }
        return budget_;
    }

private:
    static constexpr int mma_a_rows() { return design.mma_a.scales_of_row > 0 ? design.shape.m : 0; }
    static constexpr int mma_b_rows() { return design.mma_b.scales_of_row > 0 ? design.shape.n : 0; }
    static constexpr int rows_each() { return (mma_a_rows() + mma_b_rows() + warp_threads - 1) / warp_threads; }
    static_assert(mma_a_rows() % warp_threads == 0);
    /// A thread's scales of a row and a k-block: four ue8m0 scales in a word, or one scale.
    using Scales = Chosen<design.order.chain == step_k, u32, float>;

    // 1x32 scales, if the operand has them.
    static constexpr int codes() { return design.stage_k / step_k; }
    static constexpr bool a_has_codes() {
        return design.order.chain == step_k && design.a.scale_k == step_k && design.order.a == ScaleUse::chains;
    }
    static constexpr bool b_has_codes() {
        return design.order.chain == step_k && design.b.scale_k == step_k && design.order.b == ScaleUse::chains;
    }

    /// The smaller alignment of the operands that have 1x32 scales.
    TILEWRIGHT_DEVICE int common_alignment() const {
        if constexpr (design.order.chain != step_k) return 1;
        const int k_block = k_slice_of<design>(arguments_).begin;
        if constexpr (!a_has_codes()) return code_alignment<codes()>(arguments_.scales_b, k_block);
        const int of_a = code_alignment<codes()>(arguments_.scales_a, k_block);
        return b_has_codes() ? min(of_a, code_alignment<codes()>(arguments_.scales_b, k_block)) : of_a;
    }

    TILEWRIGHT_DEVICE int k_blocks_of_read() const {
        return design.order.chain == step_k && alignment_ < codes() ? 1 : k_blocks_at_once();
    }

    TILEWRIGHT_DEVICE void read(const WorkTileOf<design>& work, int lane, int begin) {
        constexpr int a_rows = design.swap_ab ? mma_b_rows() : mma_a_rows(),
                      b_rows = design.swap_ab ? mma_a_rows() : mma_b_rows();
        constexpr int a_offset = design.swap_ab ? b_rows / warp_threads : 0,
                      b_offset = design.swap_ab ? 0 : a_rows / warp_threads;
        if constexpr (design.order.chain == step_k) {
            const ScaleView &a = arguments_.scales_a, &b = arguments_.scales_b;
            if constexpr (a_rows > 0) {
                read_steps<a_has_codes(), a_offset, a_rows>(a, arguments_.m, work.batch, work.row + lane, begin);
            }
            if constexpr (b_rows > 0) {
                read_steps<b_has_codes(), b_offset, b_rows>(b, arguments_.n, work.matrix_of_b(), work.column + lane,
                                                            begin);
            }
        } else {
            constexpr bool spread = design.a.scale_rows > 1;
            read_operand<a_offset, a_rows, spread>(arguments_.scales_a, work.batch, work.row + lane, begin);
            read_operand<b_offset, b_rows>(arguments_.scales_b, work.matrix_of_b(), work.column + lane, begin);
        }
    }

    /// Reads one operand's 1x32 scales, or the scales that all steps share.
    template <bool is_coded, int offset, int rows>
    TILEWRIGHT_DEVICE void read_steps(const ScaleView& view, int all_rows, int batch, int row, int begin) {
        if constexpr (is_coded) {
            read_codes<codes(), offset, rows>(values_, view, alignment_, batch, row, begin);
        } else {
            read_repeated<offset, rows>(values_, view, all_rows, batch, row, begin);
        }
    }

    /// Reads the scales of `rows` rows of one operand, every 32nd row from `row` on, into the values from `offset` on.
    /// `spread`: 128x128 scales of A by row. A row has the scale of the operand's block that contains it, whatever the
    /// row's group is.
    template <int offset, int rows, bool spread = false>
    TILEWRIGHT_DEVICE void read_operand(const ScaleView& view, int batch, int row, int begin) {
        const i64 first = batch * view.batch_stride + (spread ? 0 : row * view.row_stride) + begin * view.k_stride;
#pragma unroll
        for (int r = 0; r < (rows + warp_threads - 1) / warp_threads; ++r) {
            const int block = spread ? int(unsigned(row + r * warp_threads) / 128) : row + r * warp_threads;
            const bool inside = block < view.rows && r * warp_threads + lane_index() < rows;
#pragma unroll
            for (int i = 0; i < k_blocks_at_once(); ++i) {
                const i64 index = first + (spread ? block : r * warp_threads) * view.row_stride + i * view.k_stride;
                values_[i][offset + r] = inside && begin + i < view.k_blocks ? load_scale(view, index) : 0;
            }
        }
    }

    TILEWRIGHT_DEVICE void write(PipelineState<design.stages>& ring, int thread, int k_block,
                                 const Scales (&values)[max(rows_each(), 1)]) {
        const int stage = ring.stage;
        barrier_wait(shared_.empty[stage], ring.phase, {budget_, BarrierName::empty, stage});
        if constexpr (design.order.chain == step_k) {
            write_steps(stage, thread, k_block, values);
        } else {
#pragma unroll
            for (int r = 0; r < rows_each(); ++r) {
                const int row = thread + r * warp_threads;
                if (mma_a_rows() > 0 && row < mma_a_rows()) {
                    store_shared(shared_.mma_a_scales[stage][row], values[r]);
                } else if (row < mma_a_rows() + mma_b_rows()) {
                    store_shared(shared_.mma_b_scales[stage][row - mma_a_rows()], values[r]);
                }
            }
        }
        sync_warp();
        // Not after a time-out, because the phase then has all of its arrivals (kernel/barriers.h).
        if (budget_ >= 0) warp_arrives<design>(shared_.full[stage], lane_index());
        ring.advance();
    }

    /// Whether the r-th of a lane's rows has 1x32 scales.
    static constexpr bool has_codes(int r) {
        return (r * warp_threads < mma_a_rows()) != design.swap_ab ? a_has_codes() : b_has_codes();
    }

    /// Writes scales of steps. After the end of k, the scales of A (of B, if A has none) are -0 and the others 1. The
    /// product of -0 and an empty sum leaves an accumulator unchanged, whatever its sign.
    TILEWRIGHT_DEVICE void write_steps(int stage, int lane, int k_block, const u32 (&words)[max(rows_each(), 1)]) {
        const int steps = (a_has_codes() ? arguments_.scales_a : arguments_.scales_b).k_blocks - k_block * codes();
        u32 normal = ~0U;
#pragma unroll
        for (int r = 0; r < rows_each(); ++r) {
            if (has_codes(r)) normal &= bits_of_normal(words[r]);
        }
        const auto each_row = [&](const auto& store) {
#pragma unroll
            for (int r = 0; r < rows_each(); ++r) {
                const bool of_mma_a = r * warp_threads < mma_a_rows();
                const int rows = of_mma_a ? mma_a_rows() : mma_b_rows();
                const int row = lane + r * warp_threads - (of_mma_a ? 0 : mma_a_rows());
                float* const scales = of_mma_a ? shared_.mma_a_scales[stage] : shared_.mma_b_scales[stage];
                if (rows % warp_threads == 0 || row < rows) store(scales + row, round_up(rows, 32), words[r], r);
            }
        };
        if (steps >= codes() && are_all_normal<codes()>(normal)) {
            each_row([](float* scales, int rows, u32 word, int r) {
                if (has_codes(r))
                    store_normal_steps<codes()>(scales, rows, word);
                else
                    store_repeated<codes()>(scales, rows, word, codes(), 0);
            });
        } else {
            each_row([steps](float* scales, int rows, u32 word, int r) {
                const bool of_a = (r * warp_threads < mma_a_rows()) != design.swap_ab;
                const float behind = of_a || design.operand_a().scales_of_row == 0 ? -0.0F : 1.0F;
                if (has_codes(r))
                    store_steps<codes()>(scales, rows, word, steps, behind);
                else
                    store_repeated<codes()>(scales, rows, word, steps, behind);
            });
        }
    }

    Shared<design>& shared_;
    const ArgumentsOf<design>& arguments_;
    int budget_ = wait_budget;
    const int alignment_ = common_alignment();
    Scales values_[k_blocks_at_once()][max(rows_each(), 1)];
};

}  // namespace tilewright::hopper
