// The load warp: operands, and 1x128 scales where TMA can load them, from global memory into the ring.
#pragma once

#include "hopper/block/k_slice.h"
#include "hopper/block/pipeline.h"
#include "hopper/block/shared_memory.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// Loads rows [row, row + wanted) of one operand in TMA boxes of 128 bytes along k, from element `k` on; boxes past
/// `wanted` are skipped. Of an operand that the cluster shares each block loads an equal part, which is multicast to
/// all.
template <Tile tile, OperandTile operand>
TILEWRIGHT_DEVICE void load_rows(u8* to, const TensorMap& map, Barrier& full, int k, int row, int batch,
                                 int wanted = operand.rows) {
    constexpr int rows = loaded_rows(tile, operand);
    constexpr int box = box_rows(tile, operand);
    const int first = operand.shared ? block_rank() * rows : 0;
    for (int i = 0; i < rows; i += box) {
        if (skips_boxes(tile) && first + i >= wanted) break;
        u8* place = to + (first + i) * row_bytes;
        if constexpr (operand.shared) {
            tma_load_multicast(place, map, full, k, row + first + i, batch, (1 << tile.cluster.size) - 1);
        } else {
            tma_load(place, map, full, k, row + i, batch);
        }
    }
}

/// Rows of A to load: whole boxes.
template <Tile tile>
TILEWRIGHT_DEVICE int rows_wanted(const WorkTile& work) {
    constexpr int box = box_rows(tile, operand_a(tile));
    const int rows = tiles_along(work.row_end - work.row, box) * box;
    return rows < d_rows(tile) ? rows : d_rows(tile);
}

/// The coordinate of a k-block's scales from `row` on, in the one dimension of their map.
TILEWRIGHT_DEVICE int scale_coordinate(const ScaleView& scales, int row, int k_block) {
    return k_block * int(scales.k_stride) + row;
}

/// Whether the first k-block can be loaded before the block's warps have synchronised: it needs no barrier of a peer
/// and no work tile.
template <Tile tile>
constexpr bool loads_early = !is_grouped(tile) && !shares_operand(tile);

/// One thread issues. The whole warp runs the loop, so that its state stays in uniform registers, from which TMA takes
/// coordinates.
template <Tile tile>
class Loader {
public:
    TILEWRIGHT_DEVICE Loader(Shared<tile>& shared, const Arguments& arguments, const WorkTiles<tile>& tiles)
        : shared_(known_address(shared)), arguments_(arguments), tiles_(tiles), slice_(k_slice_of<tile>(arguments)) {}

    /// Loads the first k-block as soon as its barrier is initialised: a cold start takes as long as some products.
    TILEWRIGHT_DEVICE void begin() {
        const WorkTile work = tiles_.first(budget_);
        if (work.exists == 0 || slice_.count == 0) return;
        fill(lane_index(), work, slice_.begin, d_rows(tile), stage_bytes());
        done_ = 1;
    }

    /// Loads all other k-blocks. Returns the wait budget that is left.
    TILEWRIGHT_DEVICE int run() {
        for (WorkTile work = tiles_.first(budget_); work.exists != 0; work = tiles_.next(budget_)) {
            int rows = d_rows(tile), bytes = stage_bytes();
            if constexpr (skips_boxes(tile)) {
                rows = rows_wanted<tile>(work);
                bytes -= (d_rows(tile) - rows) * row_bytes;
            }
            for (int i = done_; i < slice_.count; ++i) {
                const int lane = lane_index();
                barrier_wait(shared_.empty[ring_.stage], ring_.phase, {budget_, BarrierName::empty, ring_.stage});
                fill(lane, work, slice_.begin + i, rows, bytes);
            }
            done_ = 0;
        }
        return budget_;
    }

private:
    /// Rows outside of the tensor take TMA more time than rows inside: where D has one tile of rows, its box of A has
    /// only the rows that exist.
    TILEWRIGHT_DEVICE int stage_bytes() const {
        if constexpr (!may_load_fewer_rows(tile)) return value_bytes_per_stage(tile);
        return value_bytes_per_stage(tile) - (d_rows(tile) - arguments_.a_rows) * row_bytes;
    }

    TILEWRIGHT_DEVICE void fill(int lane, const WorkTile& work, int k_block, int rows, int bytes) {
        constexpr bool has_a_scales = operand_a(tile).has_row_scales(), has_b_scales = operand_b(tile).has_row_scales();
        const bool scales = has_row_scales(tile) && (!may_load_row_scales(tile) || arguments_.scales_by_tma);
        const bool a_scales = has_a_scales && scales && k_block % k_blocks_per_scale_copy(tile) == 0;
        const int stage = ring_.stage;
        Barrier& full = shared_.full[stage];
        if (lane == 0) {
            if (a_scales) bytes += a_scale_copy_bytes(tile);
            if (scales) bytes += b_scale_copy_bytes(tile);
            barrier_arrive_expect(full, bytes);
            load_rows<tile, operand_a(tile)>(shared_.values_of_a(stage), arguments_.a, full, k_block * tile.shape.k,
                                             work.row, work.batch, rows);
            load_rows<tile, operand_b(tile)>(shared_.values_of_b(stage), arguments_.b, full, k_block * tile.shape.k,
                                             work.column, work.group);
            if (a_scales) {
                constexpr bool k_major = has_k_major_scales(tile);
                const int x = k_major ? k_block : scale_coordinate(arguments_.scales_a, work.row, k_block);
                const int y = k_major ? work.row : 0;
                tma_load(shared_.scales_of_a(stage), arguments_.a_scales, full, x, y, work.batch);
            }
            if (has_b_scales && scales) {
                tma_load(shared_.scales_of_b(stage), arguments_.b_scales, full,
                         scale_coordinate(arguments_.scales_b, work.column, k_block), 0, work.group);
            }
        }
        sync_warp();
        ring_.advance();
    }

    Shared<tile>& shared_;
    const Arguments& arguments_;
    WorkTiles<tile> tiles_;
    KSlice slice_;
    PipelineState<tile.stages> ring_{.phase = 1};
    int done_ = 0;  // k-blocks of the first tile that `begin` loaded
    int budget_ = wait_budget;
};

}  // namespace tilewright::hopper
