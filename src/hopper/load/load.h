// The load warp: it loads operands, and 1x128 scales that TMA can load, from global memory into the ring. Also here are
// the 128x128 scales of B, which another warp loads into a ring of chunks.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/block/scale_view.h"
#include "hopper/block/stamps.h"
#include "hopper/load/group_maps.h"
#include "hopper/schedule/f32_parts.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// The blocks of the cluster that share an operand.
template <Design design, bool of_a>
constexpr int sharing_blocks() {
    return of_a ? design.cluster.columns : design.cluster.rows;
}

/// Loads a TMA box of 128 bytes along k, from element `k` of row `row + first` on. A box of an operand that the cluster
/// shares is multicast to all blocks.
template <Design design, bool of_a>
TILEWRIGHT_DEVICE void load_box(u8* to, const TensorMap& map, Barrier& full, int k, int row, int first, int batch) {
    u8* place = to + first * row_bytes;
    if constexpr (sharing_blocks<design, of_a>() > 1) {
        tma_load_multicast(place, map, full, k, row + first, batch, (1 << design.cluster.size()) - 1);
    } else {
        tma_load(place, map, full, k, row + first, batch);
    }
}

/// The same for an MN-major operand, whose boxes have 128 bytes along the rows per k.
template <int rows>
TILEWRIGHT_DEVICE void load_mn_major(u8* to, const TensorMap& map, Barrier& full, int k, int row, int batch) {
    static_assert(rows % mn_major_box == 0);
#pragma unroll
    for (int i = 0; i < rows; i += mn_major_box) tma_load(to + i * row_bytes, map, full, row + i, k, batch);
}

/// Loads rows [row, row + wanted) of one operand in boxes; boxes after `wanted` are skipped. If the cluster shares the
/// operand, each block loads an equal part.
template <Design design, bool of_a>
TILEWRIGHT_DEVICE void load_rows(u8* to, const TensorMap& map, Barrier& full, int k, int row, int batch,
                                 int wanted = of_a ? design.d_rows : design.d_columns) {
    constexpr OperandTile operand = of_a ? design.operand_a() : design.operand_b();
    constexpr int rows = of_a ? design.d_rows : design.d_columns, loaded = rows / sharing_blocks<design, of_a>();
    if constexpr (operand.side.form == Form::columns) return load_mn_major<rows>(to, map, full, k, row, batch);
    const int begin = loaded < rows ? block_rank() * loaded : 0;
    for (int i = 0; i < loaded; i += operand.box_rows) {
        if (design.skips_boxes && begin + i >= wanted) break;
        load_box<design, of_a>(to, map, full, k, row, begin + i, batch);
    }
}

/// The rows of A that a tile loads. Grouped: whole boxes. If blocks share B, a block without rows of A still loads its
/// part of B.
template <Design design>
TILEWRIGHT_DEVICE int rows_of_a(const ArgumentsOf<design>& arguments, const WorkTileOf<design>& work) {
    if constexpr (design.groups == Groups::k_anywhere) {
        return design.d_rows;
    } else if constexpr (design.groups != Groups::rows) {
        const int rows = rows_of_a(design, arguments.m - work.row);
        return design.cluster.rows > 1 ? max(rows, 0) : rows;
    } else if constexpr (!design.skips_boxes) {
        return design.d_rows;
    } else {
        constexpr int box = design.operand_a().box_rows;
        return min(tiles_along(work.row_end - work.row, box) * box, design.d_rows);
    }
}

/// The coordinate of a k-block's scales from `row` on. Their map has one dimension.
TILEWRIGHT_DEVICE int scale_coordinate(const ScaleView& scales, int row, int k_block) {
    return k_block * int(scales.k_stride) + row;
}

/// The part of a k-block that is loaded. Weights go first where tokens are not yet written; the barrier then already
/// expects the bytes of both.
enum class Loads : u8 { all, weights, tokens };

/// One thread issues. The whole warp runs the loop, so that its state stays in uniform registers, from which TMA takes
/// coordinates.
template <Design design>
class Loader : GroupMaps<design> {
public:
    TILEWRIGHT_DEVICE Loader(Shared<design>& shared, const ArgumentsOf<design>& arguments,
                             const WorkTiles<design>& tiles)
        : shared_(known_address(shared)), arguments_(arguments), tiles_(tiles), slice_(k_slice_of<design>(arguments)) {}

    /// Loads the first k-block as soon as its barrier is initialised, because a cold start takes as long as some
    /// products.
    TILEWRIGHT_DEVICE void begin() {
        const WorkTileOf<design> work = tiles_.first(budget_);
        if (work.exists == 0 || slice_.count == 0) return;
        fill(work, slice_.begin, rows_of_a<design>(arguments_, work));
        done_ = 1;
    }

    /// Loads all other k-blocks, and waits until all are read. Returns the rest of the wait budget.
    TILEWRIGHT_DEVICE int run() {
        if constexpr (design.groups == Groups::k_anywhere) this->claim_entry();
        if constexpr (design.groups != Groups::none) stamp_(Event::begins);
        WorkTileOf<design> work = tiles_.first(budget_);
        if constexpr (design.groups != Groups::none) stamp_(Event::takes);
        if constexpr (design.groups == Groups::rows) {
            if (arguments_.weights_ready) begin_with_weights(work);
        }
        for (; work.exists != 0; work = tiles_.next(budget_)) {
            const int rows = rows_of_a<design>(arguments_, work);
            if constexpr (design.is_k_grouped()) slice_ = k_slice_of<design>(work);
            if constexpr (design.groups == Groups::k_anywhere) this->take(arguments_, work, tiles_.origin);
            for (int i = done_; i < slice_.count; ++i) {
                stamp_(Event::waits_empty);
                barrier_wait(shared_.empty[ring_.stage], ring_.phase, {budget_, BarrierName::empty, ring_.stage});
                fill(work, slice_.begin + i, rows);
            }
            done_ = 0;
            if constexpr (design.output == Output::f32_by_tma) {
#pragma unroll 1
                for (int index = 0; index < F32Parts(design).stages; ++index) fill_with_c(work, index);
            }
        }
        wait_for_last();
        if constexpr (design.groups == Groups::k_anywhere) {
            if (budget_ >= 0) this->release_entry();
        }
        return budget_;
    }

private:
    /// Loads the weights of the first stages while earlier kernels still run, and the tokens after these.
    TILEWRIGHT_DEVICE void begin_with_weights(const WorkTileOf<design>& work) {
        const int rows = rows_of_a<design>(arguments_, work);
        done_ = work.exists != 0 ? min(slice_.count, design.stages) : 0;
        const PipelineState<design.stages> first = ring_;
#pragma unroll 1
        for (int i = 0; i < done_; ++i) fill<Loads::weights>(work, slice_.begin + i, rows);
        wait_for_earlier_kernels();
        ring_ = first;
#pragma unroll 1
        for (int i = 0; i < done_; ++i) fill<Loads::tokens>(work, slice_.begin + i, rows);
    }

    /// Waits until the last stage has been read. Until then it watches a consumer that still waits for a stage.
    TILEWRIGHT_DEVICE void wait_for_last() {
        const int last = ring_.previous();
        const u32 phase = ring_.stage == 0 ? ring_.phase : ring_.phase ^ 1;
        barrier_wait(shared_.empty[last], phase, {budget_, BarrierName::empty, last});
    }

    /// The bytes of a copy of A's scales. Scales that are adjacent along m are one row to TMA, which is always whole.
    /// Grouped tiles have one box, of all rows.
    TILEWRIGHT_DEVICE static int a_scale_bytes(int rows) {
        constexpr int four = design.k_blocks_per_scale_copy;
        constexpr int whole = design.d_rows * four * 4;
        return design.groups == Groups::rows || four == 1 ? whole : rows * four * 4;
    }

    /// The number of a D tile's packed tiles that are ahead of the end of B.
    TILEWRIGHT_DEVICE int packed_tiles(const WorkTileOf<design>& work) {
        const int left = arguments_.packed.row_tiles - work.column / packed_rows;
        return min(left, design.d_columns / packed_rows);
    }

    /// The bytes that a full barrier waits for, without scales.
    TILEWRIGHT_DEVICE int value_bytes(const WorkTileOf<design>& work, int rows) {
        const int of_a = rows * design.k_boxes * row_bytes;
        if constexpr (design.b.is_packed()) {
            const int in_place = design.b.form == Form::rows_and_tiles ? design.d_columns * raw_row_bytes : 0;
            return of_a + in_place + packed_tiles(work) * loaded_tile_bytes<design>(arguments_);
        } else {
            return of_a + design.operand_b().value_bytes;
        }
    }

    /// The two tiles of 128 rows are adjacent in memory too. Tiles with windows have more bytes. For unpacked weights
    /// read in place, the values are a box of rows, with zeros after the last row.
    TILEWRIGHT_DEVICE void load_packed(Barrier& full, const WorkTileOf<design>& work, int k_block) {
        const PackedTiles packed = arguments_.packed;
        const int bytes = loaded_tile_bytes<design>(arguments_);
        const int first = work.column / packed_rows, count = packed_tiles(work);
        u8* to = shared_.values_of_b(ring_.stage);
        if constexpr (design.b.form == Form::rows_and_tiles) {
            tma_load(to, arguments_.b, full, k_block * raw_row_bytes, work.column, work.matrix_of_b());
            to += design.d_columns * raw_row_bytes;
        }
#pragma unroll
        for (int i = 0; i < design.d_columns / packed_rows; i += 2) {
            if (i >= count) break;
            bulk_load(to + i * bytes, packed.at(work.matrix_of_b(), first + i, k_block, bytes),
                      min(count - i, 2) * bytes, full);
        }
    }

    /// Loads rows of one box of k, which begins at element `k`.
    TILEWRIGHT_DEVICE void load_a(Barrier& full, const WorkTileOf<design>& work, u8* to, int k, int rows) {
        if constexpr (design.groups == Groups::rows || design.a.form == Form::columns) {
            load_rows<design, true>(to, arguments_.a, full, k, work.row, work.batch, rows);
        } else {
            constexpr int blocks = sharing_blocks<design, true>();
            static_assert(design.operand_a().box_rows == design.d_rows / blocks);
            const TensorMap& map = rows < design.d_rows ? arguments_.a_last : arguments_.a;
            const int first = blocks > 1 ? block_rank() * (rows / blocks) : 0;
            load_box<design, true>(to, map, full, k, work.row, first, work.matrix_of_a());
        }
    }

    TILEWRIGHT_DEVICE void load_a(Barrier& full, const WorkTileOf<design>& work, int k_block, int rows) {
        u8* const to = shared_.values_of_a(ring_.stage);
        const int k = k_block * design.stage_k;
        load_a(full, work, to, k, rows);
        if constexpr (design.k_boxes == 2)
            load_a(full, work, to + design.d_rows * row_bytes, k + design.stage_k / 2, rows);
    }

    TILEWRIGHT_DEVICE void load_b(Barrier& full, const WorkTileOf<design>& work, int k_block) {
        if constexpr (design.b.is_packed()) return load_packed(full, work, k_block);
        load_rows<design, false>(shared_.values_of_b(ring_.stage), arguments_.b, full, k_block * design.stage_k,
                                 work.column, work.matrix_of_b());
    }

    TILEWRIGHT_DEVICE void load_a_scales(Barrier& full, const WorkTileOf<design>& work, int k_block, int rows) {
        float* const to = shared_.scales_of_a(ring_.stage);
        if constexpr (design.scales_along_k) {
            const bool last = design.groups != Groups::rows && rows < design.d_rows;
            const TensorMap& map = last ? arguments_.a_scales_last : arguments_.a_scales;
            tma_load(to, map, full, k_block, work.row, work.matrix_of_a());
        } else {
            const int x = scale_coordinate(arguments_.scales_a, work.row, k_block);
            tma_load(to, arguments_.a_scales, full, x, 0, work.matrix_of_a());
        }
    }

    /// The barrier at which a k-block's bytes arrive: usually `full`. It is `unfinished` if a group ends within the
    /// k-block or TMA cannot load the group. Then another warp waits at `unfinished`, clears the bytes after the end or
    /// loads all values (finish_k_blocks.h), and makes this thread's arrival at `full`.
    TILEWRIGHT_DEVICE Barrier& arrival_of(int stage, const WorkTileOf<design>& work, int k_block) {
        if constexpr (design.groups == Groups::k_anywhere) {
            if (!this->loads()) return shared_.unfinished.items[stage];
        }
        if constexpr (design.groups == Groups::k_aligned) {
            const int left = work.k - (k_block - work.k_block) * design.stage_k;
            if (left < design.stage_k) return shared_.unfinished.items[stage];
        }
        return shared_.full[stage];
    }

    TILEWRIGHT_DEVICE void load_values_of_group(Barrier& full, const WorkTileOf<design>& work, int k_block) {
        const int stage = ring_.stage, k = (k_block - work.k_block) * design.stage_k;
        load_rows<design, true>(shared_.values_of_a(stage), this->map_of_a(), full, k, work.row, 0);
        load_rows<design, false>(shared_.values_of_b(stage), this->map_of_b(), full, k, work.column, 0);
    }

    /// Loads a k-block with `rows` rows of A, or its part.
    template <Loads part = Loads::all>
    TILEWRIGHT_DEVICE void fill(const WorkTileOf<design>& work, int k_block, int rows) {
        constexpr bool has_a_scales = design.operand_a().scales_of_row > 0,
                       has_b_scales = design.operand_b().scales_of_row > 0;
        const bool has_rows = design.cluster.rows == 1 || rows > 0;
        const bool scales = scales_by_tma<design>(arguments_);
        const bool a_scales = has_a_scales && scales && has_rows && k_block % design.k_blocks_per_scale_copy == 0;
        const int stage = ring_.stage;
        stamp_(Event::loads);
        Barrier& full = arrival_of(stage, work, k_block);
        // After a time-out no stage is filled, because the consumers' waits are ended (kernel/barriers.h). The check is
        // here, because lanes could take an exit from the loop one by one.
        if (is_elected() && budget_ >= 0) {
            if constexpr (part != Loads::tokens) {
                int bytes = value_bytes(work, rows);
                if (a_scales) bytes += a_scale_bytes(rows);
                if (has_b_scales && scales) bytes += design.d_columns * 4;
                if constexpr (design.groups == Groups::k_anywhere) {
                    if (!this->loads()) bytes -= value_bytes(work, rows);
                }
                barrier_arrive_expect(full, bytes);
            }
            if constexpr (design.groups == Groups::k_anywhere) {
                if (this->loads()) load_values_of_group(full, work, k_block);
            } else {
                if (part != Loads::weights && has_rows) load_a(full, work, k_block, rows);
                if (part != Loads::tokens) load_b(full, work, k_block);
            }
            if (part != Loads::weights && a_scales) load_a_scales(full, work, k_block, rows);
            if (part != Loads::tokens && has_b_scales && scales) {
                tma_load(shared_.scales_of_b(stage), arguments_.b_scales, full,
                         scale_coordinate(arguments_.scales_b, work.column, k_block), 0, work.matrix_of_b());
            }
        }
        sync_warp();
        ring_.advance();
    }

    /// D of f32: loads C, if it is given, into the tile's `index`-th stage after its k-blocks.
    TILEWRIGHT_DEVICE void fill_with_c(const WorkTileOf<design>& work, int index) {
        const int stage = ring_.stage;
        barrier_wait(shared_.empty[stage], ring_.phase, {budget_, BarrierName::empty, stage});
        Barrier& full = shared_.full[stage];
        if (is_elected() && budget_ >= 0) {
            const bool adds = arguments_.addend.data != nullptr;
            int parts = 0;
            for_each_f32_part<design>(shared_, work, arguments_.m, stage, index, [&](u8*, int, int) { ++parts; });
            barrier_arrive_expect(full, adds ? parts * f32_part_bytes : 0);
            for_each_f32_part<design>(shared_, work, arguments_.m, stage, index, [&](u8* part, int column, int row) {
                if (adds) tma_load_once(part, arguments_.c, full, column, row, work.batch);
            });
        }
        sync_warp();
        ring_.advance();
    }

    Shared<design>& shared_;
    const ArgumentsOf<design>& arguments_;
    [[no_unique_address]] Stamps<design> stamp_{arguments_};
    WorkTiles<design> tiles_;
    KSlice slice_;
    PipelineState<design.stages> ring_{.phase = 1};
    int done_ = 0;  // k-blocks of the first tile that `begin` loaded
    int budget_ = wait_budget;
};

// ---- 128x128 scales of B, by another warp

/// The 128x128 scales of B of one tile, chunk by chunk. A chunk is read ahead of the wait for its slot. The first chunk
/// can be read ahead of the initialisation of the block's barriers, so that it arrives with the first k-block's values.
template <Design design>
class BlockScales {
public:
    TILEWRIGHT_DEVICE BlockScales(Shared<design>& shared, const ArgumentsOf<design>& arguments)
        : shared_(shared), arguments_(arguments), slice_(k_slice_of<design>(arguments)) {}

    /// Reads the chunk of the k-blocks from `begin` on.
    TILEWRIGHT_DEVICE void read(const WorkTileOf<design>& work, int begin) {
        const ScaleView& view = arguments_.scales_b;
        const int k_block = begin + lane_index();
#pragma unroll
        for (int i = 0; i < design.block_scales_per_k_block; ++i) {
            const int row = (work.column + i * (design.d_columns / design.block_scales_per_k_block)) / 128;
            const i64 index = work.matrix_of_b() * view.batch_stride + row * view.row_stride + k_block * view.k_stride;
            values_[i] = row < view.rows && k_block < view.k_blocks ? load_scale(view, index) : 0;
        }
    }
    TILEWRIGHT_DEVICE void read_first(const WorkTileOf<design>& work) {
        if (work.exists != 0 && slice_.count > 0) read(work, slice_.begin);
    }

    /// Loads the scales of a tile. `has_first`: the first chunk has already been read.
    TILEWRIGHT_DEVICE void load(const WorkTileOf<design>& work, bool has_first, int& budget) {
        if constexpr (design.is_k_grouped()) slice_ = k_slice_of<design>(work);
        for (int begin = slice_.begin; begin < slice_.begin + slice_.count; begin += scale_chunk_k_blocks) {
            if (!has_first || begin > slice_.begin) read(work, begin);
            const int slot = chunks_.stage;
            barrier_wait(shared_.block_scales_empty[slot], chunks_.phase,
                         {budget, BarrierName::block_scales_empty, slot});
#pragma unroll
            for (int i = 0; i < design.block_scales_per_k_block; ++i)
                store_shared(shared_.block_scales[slot][i][lane_index()], values_[i]);
            sync_warp();
            warp_arrives<design>(shared_.block_scales_full[slot], lane_index());
            chunks_.advance();
        }
    }

private:
    Shared<design>& shared_;
    const ArgumentsOf<design>& arguments_;
    KSlice slice_;
    PipelineState<scale_chunk_slots> chunks_{.phase = 1};
    float values_[max(design.block_scales_per_k_block, 1)];
};

}  // namespace tilewright::hopper
