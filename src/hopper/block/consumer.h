// What a consumer warp knows: its place in the block, the stages it takes and gives back, the products it issues.
//
// A warpgroup's share of the tile is cut in units of 64 rows and `piece_columns` columns, one wgmma wide. With
// promotion each unit in turn goes through the tensor core into `chain` (128 products deep), and from there, scaled,
// into `sum`. While one warpgroup promotes, the tensor core multiplies for the others.
#pragma once

#include "hopper/block/shared_memory.h"

namespace tilewright::hopper {

template <Tile tile>
constexpr int units = rows_per_warpgroup(tile) / wgmma_m* wgmmas_along_n(tile);

template <Tile tile>
constexpr int unit_registers = wgmma_n(tile) / 2;

/// A thread's share of the tile's sums: unit (half of the rows, piece of the columns), fragment as in ptx.h.
template <Tile tile>
using Sums = float[units<tile>][unit_registers<tile>];

/// The unit that the tensor core has in hand.
template <Tile tile>
using Chain = float[unit_registers<tile>];

/// What one consumer warp keeps between tiles.
template <Tile tile>
struct Consumer {
    Shared<tile>& shared;
    const Arguments& arguments;
    int warpgroup;
    int warp;  // in the warpgroup
    int lane;
    int row_in_tile;  // of this thread's first fragment row
    int k_blocks;
    MatrixDescriptor first_operand;  // of the first stage
    MatrixDescriptor second_operand;
    bool by_tma;  // D is stored by TMA
    Ring<tile.stages> ring{};
    Ring<scale_chunk_slots> blocks{};
    Ring<epilogue_scale_slots> finals{};
    Ring<1> staged{.parity = 1};
    Ring<1> slices{};
    int patience = all_patience;
    bool peers_ready = false;  // slices of k: to be sent sums
    bool arrived = false;      // the k-block in `ring` is known to be there

    TILEWRIGHT_DEVICE int first_row() const { return warpgroup * rows_per_warpgroup(tile); }

    // ---- Stages

    TILEWRIGHT_DEVICE void wait_full() {
        const int stage = ring.place;
        if (!arrived) barrier_wait(shared.full[stage], ring.parity, {patience, BarrierName::full, stage});
        arrived = false;
    }

    TILEWRIGHT_DEVICE void release(int stage) {
        if constexpr (!shares_operand(tile)) {
            warp_arrives<tile>(shared.empty[stage], lane);
        } else {
            if (lane < tile.cluster.size) barrier_arrive_peer(shared.empty[stage], lane);
        }
    }

    TILEWRIGHT_DEVICE int before(int stage) const { return stage == 0 ? tile.stages - 1 : stage - 1; }

    /// Of the k-block before the one in `ring`: it has been read.
    TILEWRIGHT_DEVICE void release_previous() { release(before(ring.place)); }

    /// The k-block in `ring` is all in the tensor core's hands: on to the next.
    TILEWRIGHT_DEVICE void advance() {
        ring.advance();
        arrived = barrier_test(shared.full[ring.place], ring.parity);
    }

    // ---- Products

    /// d (+)= the unit's rows of the first operand times its rows of the second, of the k-block in `ring`.
    TILEWRIGHT_DEVICE void issue(float (&d)[unit_registers<tile>], int unit, bool accumulate) {
        constexpr int descriptor_bytes = 16, k_bytes = 32;
        const int rows = unit / wgmmas_along_n(tile) * wgmma_m, columns = unit % wgmmas_along_n(tile) * wgmma_n(tile);
        const MatrixDescriptor first =
            first_operand + (ring.place * tile.shape.m + rows) * (row_bytes / descriptor_bytes);
        const MatrixDescriptor second =
            second_operand + (ring.place * tile.shape.n + columns) * (row_bytes / descriptor_bytes);
#pragma unroll
        for (int step = 0; step < row_bytes / k_bytes; ++step) {
            wgmma<wgmma_n(tile), mma_a(tile).spec.storage, mma_b(tile).spec.storage>(
                d, first + step * (k_bytes / descriptor_bytes), second + step * (k_bytes / descriptor_bytes),
                accumulate || step > 0);
        }
    }
};

template <Tile tile>
TILEWRIGHT_DEVICE void release_block_scales(Consumer<tile>& c) {
    if constexpr (has_block_scales(tile)) {
        sync_warp();
        warp_arrives<tile>(c.shared.block_scales_empty[c.blocks.place], c.lane);
        c.blocks.advance();
    }
}

/// The 128x128 scales that `k_block` begins, if it begins any.
template <Tile tile>
TILEWRIGHT_DEVICE void next_block_scales(Consumer<tile>& c, int k_block) {
    if constexpr (has_block_scales(tile)) {
        if (unsigned(k_block) % scale_chunk_k_blocks != 0) return;
        if (k_block > 0) release_block_scales(c);
        barrier_wait(c.shared.block_scales_full[c.blocks.place], c.blocks.parity,
                     {c.patience, BarrierName::block_scales_full, c.blocks.place});
    }
}

}  // namespace tilewright::hopper
