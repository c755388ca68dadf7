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
    bool storing = false;  // TMA may still be reading the last tile's D there

    TILEWRIGHT_DEVICE int first_row() const { return warpgroup * tile.rows_per_warpgroup(); }

    // ---- Stages

    TILEWRIGHT_DEVICE void wait_full() {
        const int stage = ring.place;
        barrier_wait(shared.full[stage], ring.parity, {arguments.report, BarrierName::full, stage});
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
        constexpr int row_bytes = 128, descriptor_bytes = 16, k_bytes = 32;
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

/// The factors that promote a k-block: scale of the row times scale of the column, each product rounded once.
template <Tile tile>
struct Factors {
    static constexpr int halves = tile.rows_per_warpgroup() / warpgroup_rows;
    static constexpr int columns = tile.piece_columns();
    static constexpr int group = tile.group_columns();
    static constexpr int groups = tile.scales_blocks() ? tile.column_groups() : 1;

    float row[halves][2][groups];  // of rows r and r + 8 of the fragment; times the scale of a group of columns
    float column[tile.scales_columns() ? columns / 4 : 1];  // of each column of the fragment

    /// Of the k-block in `ring`, which has arrived.
    TILEWRIGHT_DEVICE void read_rows(const Consumer<tile>& c, const Ring<tile.stages>& ring, int k_block) {
        if constexpr (tile.scales_rows()) {
            float block[groups];
#pragma unroll
            for (int i = 0; i < groups; ++i) {
                block[i] = 1;
                if constexpr (tile.scales_blocks()) {
                    const float* scales = c.shared.block_scales[c.blocks.place][i];
                    block[i] = load_shared(scales[unsigned(k_block) % block_scale_columns]);
                }
            }
#pragma unroll
            for (int i = 0; i < 2 * halves; ++i) {
                const int offset = i / 2 * warpgroup_rows + i % 2 * 8;
                const float scale = load_shared(c.shared.a_scales[ring.place][c.row_in_tile + offset]);
#pragma unroll
                for (int j = 0; j < groups; ++j) row[i / 2][i % 2][j] = tile.scales_blocks() ? scale * block[j] : scale;
            }
        }
    }

    /// Of the unit's columns, of the k-block that is being multiplied.
    TILEWRIGHT_DEVICE void read_columns(const Consumer<tile>& c, int unit) {
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

    /// Of element `i` (0 .. 3) of the unit's j-th 8 columns.
    TILEWRIGHT_DEVICE float of(int unit, int j, int i) const {
        const auto& rows = row[unit / tile.pieces()][i / 2];
        if constexpr (tile.scales_columns()) return rows[0] * column[2 * j + i % 2];
        return rows[(unit % tile.pieces() * columns + j * 8) / group];
    }
};

template <Tile tile>
TILEWRIGHT_DEVICE void promote(float (&sum)[unit_registers<tile>], const float (&chain)[unit_registers<tile>],
                               const Factors<tile>& factors, int unit) {
#pragma unroll
    for (int j = 0; j < tile.piece_columns() / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float& value = sum[4 * j + i];
            if constexpr (tile.scaled_in_loop()) {
                value = fma(chain[4 * j + i], factors.of(unit, j, i), value);
            } else {
                value = value + chain[4 * j + i];
            }
        }
    }
}

/// One k-block through all units, with the factors that were read before. While the last unit is multiplied, those of
/// the next k-block are: loads between the products of a group, or before them, would delay the products.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_block(Consumer<tile>& c, Sums<tile>& sums, Factors<tile>& factors, int k_block,
                                      bool may_be_first, bool may_end_scales) {
    float chain[unit_registers<tile>];
    Factors<tile> next;
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) {
        factors.read_columns(c, unit);
        pin(chain);
        wgmma_fence();
        c.issue(chain, unit, false);
        wgmma_commit();
        if (unit == 0) c.release_previous(k_block, may_be_first);
        if (unit == units<tile> - 1) {
            c.ring.advance();
            if (k_block + 1 < c.k_blocks) {
                if (may_end_scales) next_block_scales(c, k_block + 1);
                c.wait_full();
                next.read_rows(c, c.ring, k_block + 1);
            }
        }
        wgmma_wait<0>();
        pin(chain);
        promote<tile>(sums[unit], chain, factors, unit);
    }
    factors = next;
}

/// The 128x128 scales that `k_block` begins, if it begins any.
template <Tile tile>
TILEWRIGHT_DEVICE void next_block_scales(Consumer<tile>& c, int k_block) {
    if constexpr (tile.scales_blocks()) {
        if (unsigned(k_block) % block_scale_columns != 0) return;
        if (k_block > 0) release_block_scales(c);
        barrier_wait(c.shared.block_scales_full[c.blocks.place], c.blocks.parity,
                     {c.arguments.report, BarrierName::block_scales_full, c.blocks.place});
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
    c.wait_full();
    factors.read_rows(c, c.ring, 0);
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

/// The sums of one tile, before final scales.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply(Consumer<tile>& c, Sums<tile>& sums) {
    // Where D takes all stages of the ring, nothing can be loaded before they are given back.
    if (c.kept_stages == tile.stages) c.release_stored();
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) {
#pragma unroll
        for (int i = 0; i < unit_registers<tile>; ++i) sums[unit][i] = 0;
    }
    if (c.k_blocks == 0) return;
    if constexpr (tile.chain() != 0) {
        multiply_promoted<tile>(c, sums);
    } else {
        multiply_unpromoted<tile>(c, sums);
    }
}

}  // namespace tilewright::hopper
