// The producer's side: operands from global memory into the ring, by TMA.
#pragma once

#include "hopper/tiles.h"

namespace tilewright::hopper {

/// The rows of one operand from `row` on, in boxes that hold one of the first `wanted`, 128 bytes of k from element `k`
/// on. An operand that the cluster shares is fetched in equal parts, and each part goes to all of its blocks.
template <Tile tile, Side side>
TILEWRIGHT_DEVICE void load_rows(u8* to, const TensorMap& map, Barrier& full, int k, int row, int batch,
                                 int wanted = side.rows) {
    constexpr int rows = tile.fetched_rows(side);
    constexpr int box = tile.box_rows(side);
    const int first = side.shared ? block_rank() * rows : 0;
    for (int i = 0; i < rows; i += box) {
        if (tile.skips_loads() && first + i >= wanted) break;
        u8* place = to + (first + i) * row_bytes;
        if constexpr (side.shared) {
            tma_load_multicast(place, map, full, k, row + first + i, batch, (1 << tile.cluster) - 1);
        } else {
            tma_load(place, map, full, k, row + i, batch);
        }
    }
}

/// Rows of A that are loaded: whole boxes.
template <Tile tile>
TILEWRIGHT_DEVICE int rows_wanted(const Work& work) {
    constexpr int box = tile.box_rows(tile.side_a());
    const int rows = tiles_along(work.row_end - work.row, box) * box;
    return rows < tile.rows() ? rows : tile.rows();
}

/// Run by a whole warp, of which one thread issues: so its state stays in uniform registers, which TMA takes its
/// coordinates from. Returns the patience that is left.
template <Tile tile>
TILEWRIGHT_DEVICE int load_operands(Shared<tile>& shared, const Arguments& arguments, Tiles<tile> tiles) {
    int patience = all_patience;
    const bool issues = lane_index() == 0;
    const Slice slice = slice_of<tile>(arguments);
    constexpr bool has_a_scales = tile.side_a().scaled_in_loop_by_row(),
                   has_b_scales = tile.side_b().scaled_in_loop_by_row();
    const bool scales = tile.scale_warps() > 0 && (tile.plain || arguments.scales_by_tma);
    const int bytes = tile.bytes_per_stage() + (scales ? tile.b_scale_bytes() : 0);
    Ring<tile.stages> ring{.parity = 1};
    for (Work work = tiles.first(patience); work.exists != 0; work = tiles.next(patience)) {
        int rows = tile.side_a().rows, tile_bytes = bytes;
        if constexpr (tile.skips_loads()) {
            rows = rows_wanted<tile>(work);
            tile_bytes -= (tile.side_a().rows - rows) * row_bytes;
        }
        for (int k_block = slice.begin; k_block < slice.begin + slice.count; ++k_block, ring.advance()) {
            const int stage = ring.place;
            Barrier& full = shared.full[stage];
            barrier_wait(shared.empty[stage], ring.parity, {patience, BarrierName::empty, stage});
            if (issues) {
                const bool a_scales = has_a_scales && scales && k_block % tile.scale_chunk() == 0;
                barrier_arrive_expect(full, tile_bytes + (a_scales ? tile.a_scale_bytes() : 0));
                load_rows<tile, tile.side_a()>(shared.values_of_a(stage), arguments.a, full, k_block * tile.k, work.row,
                                               work.batch, rows);
                load_rows<tile, tile.side_b()>(shared.values_of_b(stage), arguments.b, full, k_block * tile.k,
                                               work.column, work.group);
                if (a_scales) {
                    const int x = tile.scales_by_row ? k_block : work.row, y = tile.scales_by_row ? work.row : k_block;
                    tma_load(shared.scales_of_a(stage), arguments.a_scales, full, x, y, work.batch);
                }
                if (has_b_scales && scales) {
                    tma_load(shared.scales_of_b(stage), arguments.b_scales, full, work.column, k_block, work.group);
                }
            }
            sync_warp();
        }
    }
    return patience;
}

}  // namespace tilewright::hopper
