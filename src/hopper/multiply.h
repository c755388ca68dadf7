// The consumers' side: a warpgroup multiplies its rows of the tile, k-block by k-block, and gives stages back.
//
// A warpgroup's share of the tile is cut in units of 64 rows and `piece_columns` columns, one wgmma wide. With
// promotion each unit in turn goes through the tensor core into `chain` (128 products deep), and from there, scaled,
// into `sum`. While one warpgroup promotes, the tensor core multiplies for the others.
#pragma once

#include "hopper/shared.h"

namespace tilewright::hopper {

template <Tile tile>
constexpr int units = tile.rows_per_warpgroup() / warpgroup_rows* tile.pieces();

template <Tile tile>
constexpr int unit_registers = tile.piece_columns() / 2;

/// A thread's share of the tile's sums: unit (half of the rows, piece of the columns), fragment as in ptx.h.
template <Tile tile>
using Sums = float[units<tile>][unit_registers<tile>];

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
    MatrixDescriptor a_rows;  // of the first stage
    MatrixDescriptor b_rows;
    bool by_tma;      // D is stored by TMA
    int kept_stages;  // the last ones of a tile, through which D is stored
    Ring<tile.stages> ring{};
    Ring<block_scale_slots> blocks{};
    Ring<final_scale_slots> finals{};
    int patience = all_patience;
    bool arrived = false;  // the k-block in `ring` is known to be there
    bool storing = false;  // TMA may still be reading the last tile's D there

    TILEWRIGHT_DEVICE int first_row() const { return warpgroup * tile.rows_per_warpgroup(); }

    // ---- Stages

    TILEWRIGHT_DEVICE void wait_full() {
        const int stage = ring.place;
        if (!arrived) barrier_wait(shared.full[stage], ring.parity, {patience, BarrierName::full, stage});
        arrived = false;
    }

    TILEWRIGHT_DEVICE void release(int stage) {
        if constexpr (tile.multicast == Multicast::none) {
            if (lane == 0) barrier_arrive(shared.empty[stage]);
        } else {
            if (lane < tile.cluster) barrier_arrive_peer(shared.empty[stage], lane);
        }
    }

    TILEWRIGHT_DEVICE int before(int stage) const { return stage == 0 ? tile.stages - 1 : stage - 1; }

    /// Gives back the stages through which the last tile's D was stored, once TMA has read them.
    TILEWRIGHT_DEVICE void release_stored() {
        if (!storing) return;
        tma_store_wait_read();  // of the lane that stored; nothing to wait for in the others
        sync_warp();
        for (int i = 0, stage = ring.place; i < kept_stages; ++i) {
            stage = before(stage);
            release(stage);
        }
        storing = false;
    }

    /// After the first product of `k_block` was issued: the k-block before it has been read. The last ones of a tile
    /// are kept, because D goes through them. `may_be_first` keeps what only a tile's first k-block does out of the
    /// others' code.
    TILEWRIGHT_DEVICE void release_previous(int k_block, bool may_be_first) {
        if (may_be_first && k_block == 0) {
            release_stored();
        } else if (k_block <= k_blocks - kept_stages) {
            release(before(ring.place));
        }
    }

    // ---- Products

    /// d (+)= the unit's rows of A times its columns of B, of the k-block in `ring`.
    TILEWRIGHT_DEVICE void issue(float (&d)[unit_registers<tile>], int unit, bool accumulate) {
        constexpr int descriptor_bytes = 16, k_bytes = 32;
        const int rows = unit / tile.pieces() * warpgroup_rows, columns = unit % tile.pieces() * tile.piece_columns();
        const MatrixDescriptor a = a_rows + (ring.place * tile.m + rows) * (row_bytes / descriptor_bytes);
        const MatrixDescriptor b = b_rows + (ring.place * tile.n + columns) * (row_bytes / descriptor_bytes);
#pragma unroll
        for (int step = 0; step < row_bytes / k_bytes; ++step) {
            wgmma<tile.piece_columns(), tile.first().storage, tile.second().storage>(
                d, a + step * (k_bytes / descriptor_bytes), b + step * (k_bytes / descriptor_bytes),
                accumulate || step > 0);
        }
    }
};

/// The factors that promote a unit: scale of the row times scale of the column, each product rounded once.
template <Tile tile>
struct Factors {
    static constexpr int columns = tile.piece_columns();
    static constexpr int group = tile.group_columns();
    static constexpr int groups = tile.scales_blocks() ? tile.column_groups() : 1;

    float block[groups];  // of groups of columns
    float row[2];         // of rows r and r + 8 of the fragment
    float product[2][groups];
    float column[tile.scales_columns() ? columns / 4 : 1];  // of each column of the fragment

    TILEWRIGHT_DEVICE void read_blocks(const Consumer<tile>& c, int k_block) {
        if constexpr (tile.scales_blocks()) {
#pragma unroll
            for (int i = 0; i < groups; ++i) {
                const float* scales = c.shared.block_scales[c.blocks.place][i];
                block[i] = load_shared(scales[unsigned(k_block) % block_scale_columns]);
            }
        }
    }

    /// Right before the unit is issued: the loads take their time while the first product runs.
    TILEWRIGHT_DEVICE void read(const Consumer<tile>& c, int unit) {
        if constexpr (tile.scales_rows()) {
            const float* rows = c.shared.a_scales[c.ring.place] + c.row_in_tile + unit / tile.pieces() * warpgroup_rows;
            row[0] = load_shared(rows[0]);
            row[1] = load_shared(rows[8]);
        }
        if constexpr (tile.scales_columns()) {
            const float* first = c.shared.b_scales[c.ring.place] + unit % tile.pieces() * columns + c.lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < columns / 8; ++j) {
                const Pair scales = load_shared(*reinterpret_cast<const Pair*>(first + j * 8));
                column[2 * j] = scales.x;
                column[2 * j + 1] = scales.y;
            }
        }
    }

    /// After the unit was multiplied.
    TILEWRIGHT_DEVICE void combine() {
        if constexpr (tile.scales_blocks()) {
#pragma unroll
            for (int i = 0; i < groups; ++i) {
                product[0][i] = row[0] * block[i];
                product[1][i] = row[1] * block[i];
            }
        }
    }

    /// Of element `i` (0 .. 3) of the unit's j-th 8 columns.
    TILEWRIGHT_DEVICE float of(int unit, int j, int i) const {
        if constexpr (tile.scales_columns()) return row[i / 2] * column[2 * j + i % 2];
        return product[i / 2][(unit % tile.pieces() * columns + j * 8) / group];
    }
};

/// All of one row, then all of the other: a factor that the next instruction uses again is not read again, and the
/// tensor core reads and writes the same registers' banks.
template <Tile tile>
TILEWRIGHT_DEVICE void promote(float (&sum)[unit_registers<tile>], const float (&chain)[unit_registers<tile>],
                               const Factors<tile>& factors, int unit) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
        for (int i = 0; i < unit_registers<tile> / 2; ++i) {
            const int j = i / 2, index = 4 * j + 2 * row + i % 2;
            if constexpr (tile.scaled_in_loop()) {
                sum[index] = fma(chain[index], factors.of(unit, j, 2 * row + i % 2), sum[index]);
            } else {
                sum[index] = sum[index] + chain[index];
            }
        }
    }
}

/// One k-block through all units.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_block(Consumer<tile>& c, Sums<tile>& sums, Factors<tile>& factors, int k_block,
                                      bool may_be_first, bool may_end_scales) {
    float chain[unit_registers<tile>];
    c.wait_full();
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) {
        factors.read(c, unit);
        pin(chain);
        wgmma_fence();
        c.issue(chain, unit, false);
        wgmma_commit();
        if (unit == 0) c.release_previous(k_block, may_be_first);
        if (unit == units<tile> - 1) {
            c.ring.advance();
            c.arrived = barrier_test(c.shared.full[c.ring.place], c.ring.parity);
        }
        wgmma_wait<0>();
        pin(chain);
        factors.combine();
        promote<tile>(sums[unit], chain, factors, unit);
    }
    if (k_block + 1 < c.k_blocks) {
        if (may_end_scales) next_block_scales(c, k_block + 1);
        factors.read_blocks(c, k_block + 1);
    }
}

/// The 128x128 scales that `k_block` begins, if it begins any.
template <Tile tile>
TILEWRIGHT_DEVICE void next_block_scales(Consumer<tile>& c, int k_block) {
    if constexpr (tile.scales_blocks()) {
        if (unsigned(k_block) % block_scale_columns != 0) return;
        if (k_block > 0) release_block_scales(c);
        barrier_wait(c.shared.block_scales_full[c.blocks.place], c.blocks.parity,
                     {c.patience, BarrierName::block_scales_full, c.blocks.place});
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE void release_block_scales(Consumer<tile>& c) {
    if constexpr (tile.scales_blocks()) {
        sync_warp();
        if (c.lane == 0) barrier_arrive(c.shared.block_scales_empty[c.blocks.place]);
        c.blocks.advance();
    }
}

/// Sums of 128 products leave the tensor core for fp32 registers. Unrolled, so that what surrounds a k-block hides
/// under the promotion of the one before.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_promoted(Consumer<tile>& c, Sums<tile>& sums) {
    constexpr int unrolled = 4;
    Factors<tile> factors;
    next_block_scales(c, 0);
    factors.read_blocks(c, 0);
    for (int k_block = 0; k_block < c.k_blocks;) {
#pragma unroll
        for (int i = 0; i < unrolled; ++i) {
            multiply_block<tile>(c, sums, factors, k_block, i == 0, i == unrolled - 1);
            if (++k_block == c.k_blocks) break;  // a second loop for the rest would cost moves and spills
        }
    }
    release_block_scales(c);
}

/// All of k in the tensor core: the next k-block is issued before the last one has finished.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_unpromoted(Consumer<tile>& c, Sums<tile>& sums) {
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        c.wait_full();
#pragma unroll
        for (int unit = 0; unit < units<tile>; ++unit) pin(sums[unit]);
        wgmma_fence();
#pragma unroll
        for (int unit = 0; unit < units<tile>; ++unit) c.issue(sums[unit], unit, k_block > 0);
        wgmma_commit();
        wgmma_wait<1>();
        c.release_previous(k_block, true);
        c.ring.advance();
    }
    wgmma_wait<0>();
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) pin(sums[unit]);
}

/// A tile in which this warpgroup has no row: its stages are given back, and the tensor core is left to the others.
template <Tile tile>
TILEWRIGHT_DEVICE void pass_over(Consumer<tile>& c) {
    for (int k_block = 0; k_block < c.k_blocks; ++k_block) {
        next_block_scales(c, k_block);
        c.wait_full();
        c.release_previous(k_block, true);
        c.ring.advance();
    }
    release_block_scales(c);
}

/// The sums of one tile, before final scales; zeros without rows.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply(Consumer<tile>& c, Sums<tile>& sums, [[maybe_unused]] bool has_rows) {
    // Where D takes all stages of the ring, nothing can be loaded before they are given back.
    if (c.kept_stages == tile.stages) c.release_stored();
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) {
#pragma unroll
        for (int i = 0; i < unit_registers<tile>; ++i) sums[unit][i] = 0;
    }
    if (c.k_blocks == 0) return;
    if constexpr (tile.skips_rows()) {
        if (!has_rows) return pass_over<tile>(c);
    }
    if constexpr (tile.chain() != 0) {
        multiply_promoted<tile>(c, sums);
    } else {
        multiply_unpromoted<tile>(c, sums);
    }
}

}  // namespace tilewright::hopper
