// Scale factors on their way in: by ordinary loads, so that they may lie in any strides and formats. Three kinds:
// of rows, for each k-block, into the stage that they belong to; of 128x128 blocks, 32 k-blocks at a time; and those
// that multiply finished sums, for each tile.
#pragma once

#include "formats/codec.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

TILEWRIGHT_DEVICE float load_scale(const ScaleView& view, i64 index) {
    if (view.format == ScaleFormat::f32) return load_global(static_cast<const float*>(view.data) + index);
    return formats::decode_ue8m0(load_global(static_cast<const u8*>(view.data) + index));
}

/// The scale of a row block and a k-block; 0 outside. Without scales, 1.
TILEWRIGHT_DEVICE float scale_at(const ScaleView& view, int batch, int row, int k_block) {
    if (view.data == nullptr) return 1;
    if (row >= view.rows || k_block >= view.k_blocks) return 0;
    return load_scale(view, batch * view.batch_stride + row * view.row_stride + k_block * view.k_stride);
}

/// Scales of rows, where TMA cannot bring them. Several k-blocks are read at once, so that the reads of one row meet in
/// the same sectors, while the stages before them are still being multiplied.
template <Tile tile>
class RowScales {
public:
    /// As many as the producer's registers hold.
    static constexpr int k_blocks_at_once = tile.shape.warpgroups > 2                ? 1
                                            : tile.swap_ab && !scales_mma_rows(tile) ? 4
                                                                                     : 2;

    TILEWRIGHT_DEVICE RowScales(Shared<tile>& shared, const Arguments& arguments)
        : shared_(shared), arguments_(arguments) {}

    /// Returns the patience that is left.
    TILEWRIGHT_DEVICE int run() {
        const Slice slice = slice_of<tile>(arguments_);
        const int end = slice.begin + slice.count;
        const int thread = lane_index();
        Ring<tile.stages> ring{.parity = 1};
        Tiles<tile> tiles(shared_, arguments_);
        tiles.prepare();
        for (Work work = tiles.first(patience_); work.exists != 0; work = tiles.next(patience_)) {
            for (int begin = slice.begin; begin < end; begin += k_blocks_at_once) {
                read(work, thread, begin);
#pragma unroll
                for (int i = 0; i < k_blocks_at_once; ++i) {
                    if (begin + i >= end) break;
                    write(ring, thread, values_[i]);
                }
            }
        }
        return patience_;
    }

private:
    static constexpr int threads = warp_threads;
    static constexpr int first_rows = scales_mma_rows(tile) ? tile.shape.m : 0;
    static constexpr int second_rows = scales_mma_columns(tile) ? tile.shape.n : 0;
    static constexpr int rows_each = (first_rows + second_rows + threads - 1) / threads;

    TILEWRIGHT_DEVICE void read(const Work& work, int lane, int begin) {
        constexpr int a_rows = tile.swap_ab ? second_rows : first_rows,
                      b_rows = tile.swap_ab ? first_rows : second_rows;
        constexpr int a_place = tile.swap_ab ? b_rows / threads : 0, b_place = tile.swap_ab ? 0 : a_rows / threads;
        read_side<a_place, a_rows>(arguments_.scales_a, work.batch, work.row + lane, begin);
        read_side<b_place, b_rows>(arguments_.scales_b, work.group, work.column + lane, begin);
    }

    /// `rows` rows of one operand, from `row` on every 32nd, into the values from `place` on.
    template <int place, int rows>
    TILEWRIGHT_DEVICE void read_side(const ScaleView& view, int batch, int row, int begin) {
        const i64 first = batch * view.batch_stride + row * view.row_stride + begin * view.k_stride;
#pragma unroll
        for (int r = 0; r < (rows + threads - 1) / threads; ++r) {
            const bool inside = row + r * threads < view.rows && r * threads + lane_index() < rows;
#pragma unroll
            for (int i = 0; i < k_blocks_at_once; ++i) {
                const i64 index = first + r * threads * view.row_stride + i * view.k_stride;
                values_[i][place + r] = inside && begin + i < view.k_blocks ? load_scale(view, index) : 0;
            }
        }
    }

    TILEWRIGHT_DEVICE void write(Ring<tile.stages>& ring, int thread, const float (&values)[at_least_one(rows_each)]) {
        const int stage = ring.place;
        barrier_wait(shared_.empty[stage], ring.parity, {patience_, BarrierName::empty, stage});
#pragma unroll
        for (int r = 0; r < rows_each; ++r) {
            const int row = thread + r * threads;
            if (first_rows > 0 && row < first_rows) {
                store_shared(shared_.first_scales[stage][row], values[r]);
            } else if (row < first_rows + second_rows) {
                store_shared(shared_.second_scales[stage][row - first_rows], values[r]);
            }
        }
        sync_warp();
        warp_arrives<tile>(shared_.full[stage], lane_index());
        ring.advance();
    }

    Shared<tile>& shared_;
    const Arguments& arguments_;
    int patience_ = all_patience;
    float values_[k_blocks_at_once][at_least_one(rows_each)];
};

/// One warp: brings the scales that serve a whole tile, or many of its k-blocks, ahead of the tile. Grouped: hands out
/// the tiles, which it meets first.
template <Tile tile>
class TileScales {
public:
    TILEWRIGHT_DEVICE TileScales(Shared<tile>& shared, const Arguments& arguments)
        : shared_(shared), arguments_(arguments) {}

    TILEWRIGHT_DEVICE int run() {
        HandedOutTiles<tile> tiles(shared_, arguments_);
        tiles.prepare();
        for (Work work = tiles.first(patience_); work.exists != 0; work = tiles.next(patience_)) {
            if constexpr (has_epilogue_scales(tile)) bring_final_scales(work);
            if constexpr (has_block_scales(tile)) bring_block_scales(work);
        }
        return patience_;
    }

private:
    TILEWRIGHT_DEVICE void bring_final_scales(const Work& work) {
        const int place = finals_.place;
        barrier_wait(shared_.final_scales_empty[place], finals_.parity,
                     {patience_, BarrierName::final_scales_empty, place});
        float *rows = shared_.row_scales[place], *columns = shared_.column_scales[place];
        bring<d_rows(tile)>(tile.swap_ab ? columns : rows, arguments_.scales_a, work.batch, work.row);
        bring<d_columns(tile)>(tile.swap_ab ? rows : columns, arguments_.scales_b, work.group, work.column);
        sync_warp();
        warp_arrives<tile>(shared_.final_scales_full[place], lane_index());
        finals_.advance();
    }

    /// All loads first: one after the other they would take the time of each.
    template <int count>
    TILEWRIGHT_DEVICE void bring(float* to, const ScaleView& view, int batch, int first) {
        constexpr int each = (count + warp_threads - 1) / warp_threads;
        float values[each];
        const int lane = lane_index();
#pragma unroll
        for (int i = 0; i < each; ++i) values[i] = scale_at(view, batch, first + i * warp_threads + lane, 0);
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const int index = i * warp_threads + lane;
            if (index < count) store_shared(to[index], values[i]);
        }
    }

    TILEWRIGHT_DEVICE void bring_block_scales(const Work& work) {
        const Slice slice = slice_of<tile>(arguments_);
        for (int begin = slice.begin; begin < slice.begin + slice.count; begin += scale_chunk_k_blocks) {
            const int place = blocks_.place;
            barrier_wait(shared_.block_scales_empty[place], blocks_.parity,
                         {patience_, BarrierName::block_scales_empty, place});
            for (int group = 0; group < block_scales_per_k_block(tile); ++group) {
                const int row_block = (work.column + group * columns_per_block_scale(tile)) / 128;
                const float value = scale_at(arguments_.scales_b, work.group, row_block, begin + lane_index());
                store_shared(shared_.block_scales[place][group][lane_index()], value);
            }
            sync_warp();
            warp_arrives<tile>(shared_.block_scales_full[place], lane_index());
            blocks_.advance();
        }
    }

    Shared<tile>& shared_;
    const Arguments& arguments_;
    int patience_ = all_patience;
    Ring<epilogue_scale_slots> finals_{.parity = 1};
    Ring<scale_chunk_slots> blocks_{.parity = 1};
};

}  // namespace tilewright::hopper
