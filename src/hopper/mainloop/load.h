// The load warp: it loads operands, and 1x128 scales that TMA can load, from global memory into the ring.
#pragma once

#include "hopper/block/k_slice.h"
#include "hopper/block/packed_view.h"
#include "hopper/block/pipeline.h"
#include "hopper/block/shared_memory.h"
#include "hopper/block/stamps.h"
#include "hopper/mainloop/group_maps.h"
#include "hopper/schedule/f32_parts.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// Loads a TMA box of 128 bytes along k, from element `k` of row `row + first` on. A box of an operand that the cluster
/// shares is multicast to all blocks.
template <Tile tile, OperandTile operand>
TILEWRIGHT_DEVICE void load_box(u8* to, const TensorMap& map, Barrier& full, int k, int row, int first, int batch) {
    u8* place = to + first * row_bytes;
    if constexpr (operand.shared) {
        tma_load_multicast(place, map, full, k, row + first, batch, (1 << tile.cluster.size) - 1);
    } else {
        tma_load(place, map, full, k, row + first, batch);
    }
}

/// The same for an MN-major operand, whose boxes have 128 bytes along the rows per k.
template <OperandTile operand>
TILEWRIGHT_DEVICE void load_mn_major(u8* to, const TensorMap& map, Barrier& full, int k, int row, int batch) {
    static_assert(operand.rows % mn_major_box == 0 && !operand.shared);
#pragma unroll
    for (int i = 0; i < operand.rows; i += mn_major_box) {
        tma_load(to + i * row_bytes, map, full, row + i, k, batch);
    }
}

/// Loads rows [row, row + wanted) of one operand in boxes; boxes after `wanted` are skipped. If the cluster shares the
/// operand, each block loads an equal part.
template <Tile tile, OperandTile operand>
TILEWRIGHT_DEVICE void load_rows(u8* to, const TensorMap& map, Barrier& full, int k, int row, int batch,
                                 int wanted = operand.rows) {
    if constexpr (operand.is_mn_major()) return load_mn_major<operand>(to, map, full, k, row, batch);
    constexpr int rows = loaded_rows(tile, operand);
    const int begin = operand.shared ? block_rank() * rows : 0;
    for (int i = 0; i < rows; i += box_rows(tile, operand)) {
        if (skips_boxes(tile) && begin + i >= wanted) break;
        load_box<tile, operand>(to, map, full, k, row, begin + i, batch);
    }
}

/// The rows of A that a tile loads. Grouped: whole boxes. If blocks share B, a block without rows of A still loads its
/// part of B.
template <Tile tile>
TILEWRIGHT_DEVICE int rows_of_a(const Arguments& arguments, const WorkTile& work) {
    if constexpr (maps_groups(tile)) return d_rows(tile);
    if constexpr (!is_grouped(tile)) {
        const int rows = rows_of_a(tile, arguments.m - work.row);
        return tile.cluster.use == ClusterUse::share_b ? max(rows, 0) : rows;
    }
    if constexpr (!skips_boxes(tile)) return d_rows(tile);
    constexpr int box = box_rows(tile, operand_a(tile));
    return min(tiles_along(work.row_end - work.row, box) * box, d_rows(tile));
}

/// The coordinate of a k-block's scales from `row` on. Their map has one dimension.
TILEWRIGHT_DEVICE int scale_coordinate(const ScaleView& scales, int row, int k_block) {
    return k_block * int(scales.k_stride) + row;
}

/// Whether the first k-block can be loaded ahead of the block's synchronisation: it needs no barrier of a peer and no
/// work tile.
template <Tile tile>
constexpr bool loads_early = !has_scheduler(tile) && !shares_operand(tile);

/// The index of the matrix of A or B that a tile of batch member or group `index` reads. k-grouped: all groups share
/// one matrix.
template <Tile tile>
TILEWRIGHT_DEVICE int matrix_of(int index) {
    return is_k_grouped(tile) ? 0 : index;
}

/// One thread issues. The whole warp runs the loop, so that its state stays in uniform registers, from which TMA takes
/// coordinates.
template <Tile tile>
class Loader : GroupMaps<tile> {
public:
    TILEWRIGHT_DEVICE Loader(Shared<tile>& shared, const Arguments& arguments, const WorkTiles<tile>& tiles)
        : shared_(known_address(shared)), arguments_(arguments), tiles_(tiles), slice_(k_slice_of<tile>(arguments)) {}

    /// Loads the first k-block as soon as its barrier is initialised, because a cold start takes as long as some
    /// products.
    TILEWRIGHT_DEVICE void begin() {
        const WorkTile work = tiles_.first(budget_);
        if (work.exists == 0 || slice_.count == 0) return;
        fill(work, slice_.begin, rows_of_a<tile>(arguments_, work));
        done_ = 1;
    }

    /// Loads all other k-blocks, and waits until all are read. Returns the rest of the wait budget.
    TILEWRIGHT_DEVICE int run() {
        if constexpr (maps_groups(tile)) this->claim_entry();
        for (WorkTile work = tiles_.first(budget_); work.exists != 0; work = tiles_.next(budget_)) {
            const int rows = rows_of_a<tile>(arguments_, work);
            if constexpr (is_k_grouped(tile)) slice_ = k_slice_of<tile>(work);
            if constexpr (maps_groups(tile)) this->take(arguments_, work, tiles_.origin);
            for (int i = done_; i < slice_.count; ++i) {
                stamp_(Event::waits_empty);
                barrier_wait(shared_.empty[ring_.stage], ring_.phase, {budget_, BarrierName::empty, ring_.stage});
                fill(work, slice_.begin + i, rows);
            }
            done_ = 0;
            if constexpr (stores_f32(tile)) {
#pragma unroll 1
                for (int index = 0; index < output_stages(tile); ++index) fill_with_c(work, index);
            }
        }
        wait_for_last();
        if constexpr (maps_groups(tile)) {
            if (budget_ >= 0) this->release_entry();
        }
        return budget_;
    }

private:
    /// Waits until the last stage has been read. Until then it watches a consumer that still waits for a stage.
    TILEWRIGHT_DEVICE void wait_for_last() {
        const int last = ring_.stage == 0 ? tile.stages - 1 : ring_.stage - 1;
        const u32 phase = ring_.stage == 0 ? ring_.phase : ring_.phase ^ 1;
        barrier_wait(shared_.empty[last], phase, {budget_, BarrierName::empty, last});
    }

    /// The bytes that a full barrier waits for, without scales.
    TILEWRIGHT_DEVICE static int value_bytes(int rows) {
        return value_bytes_per_stage(tile) - (d_rows(tile) - rows) * operand_a(tile).stage_row_bytes();
    }

    /// The number of a D tile's packed tiles that are ahead of the end of B.
    TILEWRIGHT_DEVICE int packed_tiles(const WorkTile& work) {
        const int left = packed_tiles_of<tile>(arguments_).row_tiles - work.column / packed_tile_rows;
        return min(left, d_columns(tile) / packed_tile_rows);
    }

    /// The bytes that `value_bytes` counts although they do not exist.
    TILEWRIGHT_DEVICE int missing_packed_bytes(const WorkTile& work) {
        if constexpr (tile.b.storage == Storage::windowed_e2m1) {
            return operand_b(tile).loaded_bytes() - packed_tiles(work) * loaded_tile_bytes<tile>(arguments_);
        } else {
            return (d_columns(tile) / packed_tile_rows - packed_tiles(work)) * loaded_tile_bytes<tile>(arguments_);
        }
    }

    /// The two tiles of 128 rows are adjacent in memory too. Tiles with windows have more bytes. For unpacked weights
    /// read in place, the values are a box of rows, with zeros after the last row.
    TILEWRIGHT_DEVICE void load_packed(Barrier& full, const WorkTile& work, int k_block) {
        const PackedTiles packed = packed_tiles_of<tile>(arguments_);
        const int bytes = loaded_tile_bytes<tile>(arguments_);
        const int first = work.column / packed_tile_rows, count = packed_tiles(work);
        u8* to = shared_.values_of_b(ring_.stage);
        if constexpr (has_raw_codes(tile)) {
            tma_load(to, arguments_.b, full, k_block * raw_row_bytes, work.column, work.group);
            to += d_columns(tile) * raw_row_bytes;
        }
#pragma unroll
        for (int i = 0; i < d_columns(tile) / packed_tile_rows; i += 2) {
            if (i >= count) break;
            bulk_load(to + i * bytes, packed.at(work.group, first + i, k_block, bytes), min(count - i, 2) * bytes,
                      full);
        }
    }

    /// Loads rows of one box of k, which begins at element `k`.
    TILEWRIGHT_DEVICE void load_a(Barrier& full, const WorkTile& work, u8* to, int k, int rows) {
        constexpr OperandTile a = operand_a(tile);
        if constexpr (is_grouped(tile) || a.is_mn_major()) {
            load_rows<tile, a>(to, arguments_.a, full, k, work.row, work.batch, rows);
        } else {
            static_assert(box_rows(tile, a) == loaded_rows(tile, a));
            const TensorMap& map = rows < d_rows(tile) ? arguments_.a_last : arguments_.a;
            const int first = a.shared ? block_rank() * (rows / tile.cluster.size) : 0;
            load_box<tile, a>(to, map, full, k, work.row, first, matrix_of<tile>(work.batch));
        }
    }

    TILEWRIGHT_DEVICE void load_a(Barrier& full, const WorkTile& work, int k_block, int rows) {
        u8* const to = shared_.values_of_a(ring_.stage);
        const int k = k_block * tile.shape.k;
        load_a(full, work, to, k, rows);
        if constexpr (k_boxes(tile) == 2) load_a(full, work, to + d_rows(tile) * row_bytes, k + box_k(tile), rows);
    }

    TILEWRIGHT_DEVICE void load_a_scales(Barrier& full, const WorkTile& work, int k_block, int rows) {
        float* const to = shared_.scales_of_a(ring_.stage);
        if constexpr (has_k_major_scales(tile)) {
            const bool last = !is_grouped(tile) && rows < d_rows(tile);
            const TensorMap& map = last ? arguments_.a_scales_last : arguments_.a_scales;
            tma_load(to, map, full, k_block, work.row, matrix_of<tile>(work.batch));
        } else {
            const int x = scale_coordinate(arguments_.scales_a, work.row, k_block);
            tma_load(to, arguments_.a_scales, full, x, 0, matrix_of<tile>(work.batch));
        }
    }

    /// The barrier at which a k-block's bytes arrive: usually `full`. It is `landed` if a group ends within the k-block
    /// or TMA cannot load the group. Then another warp waits at `landed`, clears the bytes after the end (clear_rest.h)
    /// or loads all values (odd_groups.h), and makes this thread's arrival at `full`.
    TILEWRIGHT_DEVICE Barrier& arrival_of(int stage, const WorkTile& work, int k_block) {
        if constexpr (maps_groups(tile)) {
            if (!this->loads()) return shared_.landed.barriers[stage];
        }
        if constexpr (clears_rests(tile)) {
            const int left = k_of(work) - (k_block - first_k_block_of(work)) * tile.shape.k;
            if (left < tile.shape.k) return shared_.landed.barriers[stage];
        }
        return shared_.full[stage];
    }

    TILEWRIGHT_DEVICE void load_values_of_group(Barrier& full, const WorkTile& work, int k_block) {
        const int stage = ring_.stage, k = (k_block - first_k_block_of(work)) * tile.shape.k;
        load_rows<tile, operand_a(tile)>(shared_.values_of_a(stage), this->map_of_a(), full, k, work.row, 0);
        load_rows<tile, operand_b(tile)>(shared_.values_of_b(stage), this->map_of_b(), full, k, work.column, 0);
    }

    /// Loads a k-block with `rows` rows of A.
    TILEWRIGHT_DEVICE void fill(const WorkTile& work, int k_block, int rows) {
        constexpr bool has_a_scales = operand_a(tile).has_row_scales(), has_b_scales = operand_b(tile).has_row_scales();
        const bool has_rows = tile.cluster.use != ClusterUse::share_b || rows > 0;
        const bool scales =
            may_load_row_scales_by_tma(tile) && (!may_load_row_scales(tile) || arguments_.scales_by_tma);
        const bool a_scales = has_a_scales && scales && has_rows && k_block % k_blocks_per_scale_copy(tile) == 0;
        const int stage = ring_.stage;
        stamp_(Event::loads);
        Barrier& full = arrival_of(stage, work, k_block);
        // After a time-out no stage is filled, because the consumers' waits are ended (kernel/watch.h). The check is
        // here, because lanes could take an exit from the loop one by one.
        if (is_elected() && budget_ >= 0) {
            int bytes = value_bytes(rows);
            if (a_scales) bytes += a_scale_copy_bytes(tile, rows);
            if (scales) bytes += b_scale_copy_bytes(tile);
            if constexpr (maps_groups(tile)) {
                if (!this->loads()) bytes -= value_bytes(rows);
            }
            if constexpr (has_packed_weights(tile)) bytes -= missing_packed_bytes(work);
            barrier_arrive_expect(full, bytes);
            if constexpr (maps_groups(tile)) {
                if (this->loads()) load_values_of_group(full, work, k_block);
            } else {
                if (has_rows) load_a(full, work, k_block, rows);
                if constexpr (has_packed_weights(tile)) {
                    load_packed(full, work, k_block);
                } else {
                    load_rows<tile, operand_b(tile)>(shared_.values_of_b(stage), arguments_.b, full,
                                                     k_block * tile.shape.k, work.column, matrix_of<tile>(work.group));
                }
            }
            if (a_scales) load_a_scales(full, work, k_block, rows);
            if (has_b_scales && scales) {
                tma_load(shared_.scales_of_b(stage), arguments_.b_scales, full,
                         scale_coordinate(arguments_.scales_b, work.column, k_block), 0, matrix_of<tile>(work.group));
            }
        }
        sync_warp();
        ring_.advance();
    }

    /// D of f32: loads C, if it is given, into the tile's `index`-th stage after its k-blocks.
    TILEWRIGHT_DEVICE void fill_with_c(const WorkTile& work, int index) {
        const int stage = ring_.stage;
        barrier_wait(shared_.empty[stage], ring_.phase, {budget_, BarrierName::empty, stage});
        Barrier& full = shared_.full[stage];
        if (is_elected() && budget_ >= 0) {
            const bool adds = arguments_.addend.data != nullptr;
            int parts = 0;
            for_each_f32_part<tile>(shared_, work, arguments_.m, stage, index, [&](u8*, int, int) { ++parts; });
            barrier_arrive_expect(full, adds ? parts * f32_part_bytes() : 0);
            for_each_f32_part<tile>(shared_, work, arguments_.m, stage, index, [&](u8* part, int column, int row) {
                if (adds) tma_load_once(part, arguments_.a_scales_last, full, column, row, work.batch);
            });
        }
        sync_warp();
        ring_.advance();
    }

    Shared<tile>& shared_;
    const Arguments& arguments_;
    [[no_unique_address]] Stamps<tile> stamp_{arguments_};
    WorkTiles<tile> tiles_;
    KSlice slice_;
    PipelineState<tile.stages> ring_{.phase = 1};
    int done_ = 0;  // k-blocks of the first tile that `begin` loaded
    int budget_ = wait_budget;
};

}  // namespace tilewright::hopper
