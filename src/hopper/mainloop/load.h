// The producer's side: operands from global memory into the ring, by TMA.
#pragma once

#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// The rows of one operand from `row` on, in boxes that hold one of the first `wanted`, 128 bytes of k from element `k`
/// on. An operand that the cluster shares is fetched in equal parts, and each part goes to all of its blocks.
template <Tile tile, OperandTile side>
TILEWRIGHT_DEVICE void load_rows(u8* to, const TensorMap& map, Barrier& full, int k, int row, int batch,
                                 int wanted = side.rows) {
    constexpr int rows = loaded_rows(tile, side);
    constexpr int box = box_rows(tile, side);
    const int first = side.shared ? block_rank() * rows : 0;
    for (int i = 0; i < rows; i += box) {
        if (skips_boxes(tile) && first + i >= wanted) break;
        u8* place = to + (first + i) * row_bytes;
        if constexpr (side.shared) {
            tma_load_multicast(place, map, full, k, row + first + i, batch, (1 << tile.cluster.size) - 1);
        } else {
            tma_load(place, map, full, k, row + i, batch);
        }
    }
}

/// Rows of A that are loaded: whole boxes.
template <Tile tile>
TILEWRIGHT_DEVICE int rows_wanted(const Work& work) {
    constexpr int box = box_rows(tile, operand_a(tile));
    const int rows = tiles_along(work.row_end - work.row, box) * box;
    return rows < d_rows(tile) ? rows : d_rows(tile);
}

/// Where the scales of a tile's rows begin along the only dimension of their map.
TILEWRIGHT_DEVICE int scale_place(const ScaleView& scales, int row, int k_block) {
    return k_block * int(scales.k_stride) + row;
}

/// Whether the first k-block may be under way before the block has met: nobody else's barriers or tiles are needed.
template <Tile tile>
constexpr bool loads_early = !is_grouped(tile) && !shares_operand(tile);

/// The loading warp, of which one thread issues: as a whole warp its state stays in uniform registers, which TMA takes
/// its coordinates from.
template <Tile tile>
class Loader {
public:
    TILEWRIGHT_DEVICE Loader(Shared<tile>& shared, const Arguments& arguments, const Tiles<tile>& tiles)
        : shared_(known_address(shared)), arguments_(arguments), tiles_(tiles), slice_(slice_of<tile>(arguments)) {}

    /// Loads the first k-block, as soon as its barrier is ready: a cold start takes as long as some whole products.
    TILEWRIGHT_DEVICE void begin() {
        const Work work = tiles_.first(patience_);
        if (work.exists == 0 || slice_.count == 0) return;
        fill(lane_index(), work, slice_.begin, d_rows(tile), stage_bytes());
        done_ = 1;
    }

    /// All the rest. Returns the patience that is left.
    TILEWRIGHT_DEVICE int run() {
        for (Work work = tiles_.first(patience_); work.exists != 0; work = tiles_.next(patience_)) {
            int rows = d_rows(tile), bytes = stage_bytes();
            if constexpr (skips_boxes(tile)) {
                rows = rows_wanted<tile>(work);
                bytes -= (d_rows(tile) - rows) * row_bytes;
            }
            for (int i = done_; i < slice_.count; ++i) {
                const int lane = lane_index();
                barrier_wait(shared_.empty[ring_.place], ring_.parity, {patience_, BarrierName::empty, ring_.place});
                fill(lane, work, slice_.begin + i, rows, bytes);
            }
            done_ = 0;
        }
        return patience_;
    }

private:
    /// Rows outside the tensor cost TMA more time than rows inside; those of a single tile of rows are not asked for.
    TILEWRIGHT_DEVICE int stage_bytes() const {
        if constexpr (!may_load_fewer_rows(tile)) return value_bytes_per_stage(tile);
        return value_bytes_per_stage(tile) - (d_rows(tile) - arguments_.a_rows) * row_bytes;
    }

    TILEWRIGHT_DEVICE void fill(int lane, const Work& work, int k_block, int rows, int bytes) {
        constexpr bool has_a_scales = operand_a(tile).has_row_scales(), has_b_scales = operand_b(tile).has_row_scales();
        const bool scales = has_row_scales(tile) && (!may_load_row_scales(tile) || arguments_.scales_by_tma);
        const bool a_scales = has_a_scales && scales && k_block % k_blocks_per_scale_copy(tile) == 0;
        const int stage = ring_.place;
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
                const int x = has_k_major_scales(tile) ? k_block : scale_place(arguments_.scales_a, work.row, k_block);
                const int y = has_k_major_scales(tile) ? work.row : 0;
                tma_load(shared_.scales_of_a(stage), arguments_.a_scales, full, x, y, work.batch);
            }
            if (has_b_scales && scales) {
                tma_load(shared_.scales_of_b(stage), arguments_.b_scales, full,
                         scale_place(arguments_.scales_b, work.column, k_block), 0, work.group);
            }
        }
        sync_warp();
        ring_.advance();
    }

    Shared<tile>& shared_;
    const Arguments& arguments_;
    Tiles<tile> tiles_;
    Slice slice_;
    Ring<tile.stages> ring_{.parity = 1};
    int done_ = 0;  // k-blocks of the first tile, by `begin`
    int patience_ = all_patience;
};

}  // namespace tilewright::hopper
