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
    int k_blocks;
    MatrixDescriptor a_rows;  // of the first stage
    MatrixDescriptor b_rows;
    bool by_tma;      // D is stored by TMA
    int kept_stages;  // the last ones of a tile, through which D is stored
    Ring<tile.stages> ring{};
    Ring<block_scale_slots> blocks{};
    bool arrived = false;  // the k-block in `ring` is known to be there
    bool storing = false;  // TMA may still be reading the last tile's D there

    TILEWRIGHT_DEVICE int first_row() const { return warpgroup * tile.rows_per_warpgroup(); }

    // ---- Stages

    TILEWRIGHT_DEVICE void wait_full() {
        const int stage = ring.place;
        if (!arrived) barrier_wait(shared.full[stage], ring.parity, {arguments.report, BarrierName::full, stage});
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
    /// are kept, because D goes through them.
    TILEWRIGHT_DEVICE void release_previous(int k_block) {
        if (k_block == 0) {
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

/// The factors that promote one unit: scale of the row times scale of the column, each product rounded once.
template <Tile tile>
struct Factors {
    static constexpr int columns = tile.piece_columns();
    static constexpr int group = tile.group_columns();
    static constexpr int groups = tile.scales_blocks() ? (columns + group - 1) / group + (columns % group != 0) : 1;

    float row[2];         // of rows r and r + 8 of the fragment
    float block[groups];  // of groups of columns
    float product[2][groups];
    float column[tile.scales_columns() ? columns / 4 : 1];  // of each column of the fragment

    /// Before the unit is issued: loads between the products of a group would delay them.
    TILEWRIGHT_DEVICE void read(const Consumer<tile>& c, int unit, int k_block) {
        const int stage = c.ring.place;
        if constexpr (tile.scales_rows()) {
            const int first = c.first_row() + unit / tile.pieces() * warpgroup_rows + c.warp * warp_rows + c.lane / 4;
            row[0] = load_shared(c.shared.a_scales[stage][first]);
            row[1] = load_shared(c.shared.a_scales[stage][first + 8]);
        }
        const int begin = unit % tile.pieces() * columns;
        if constexpr (tile.scales_blocks()) {
#pragma unroll
            for (int i = 0; i < groups; ++i) {
                const int which = begin / group + i;
                if (which < tile.column_groups()) {
                    block[i] = load_shared(c.shared.block_scales[c.blocks.place][which][k_block % block_scale_columns]);
                }
            }
        }
        if constexpr (tile.scales_columns()) {
#pragma unroll
            for (int j = 0; j < columns / 8; ++j) {
                const float* pair = &c.shared.b_scales[stage][begin + j * 8 + c.lane % 4 * 2];
                const Pair scales = load_shared(*reinterpret_cast<const Pair*>(pair));
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
        const int begin = unit % tile.pieces() * columns;
        return product[i / 2][(begin + j * 8) / group - begin / group];
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

/// One k-block through all units.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_block(Consumer<tile>& c, Sums<tile>& sums, int k_block) {
    float chain[unit_registers<tile>];
    Factors<tile> factors;
    Ring<tile.stages> next = c.ring;
    next.advance();
    c.wait_full();
#pragma unroll
    for (int unit = 0; unit < units<tile>; ++unit) {
        factors.read(c, unit, k_block);
        pin(chain);
        wgmma_fence();
        c.issue(chain, unit, false);
        wgmma_commit();
        if (unit == 0) c.release_previous(k_block);
        if (unit == units<tile> - 1) c.arrived = barrier_test(c.shared.full[next.place], next.parity);
        wgmma_wait<0>();
        pin(chain);
        factors.combine();
        promote<tile>(sums[unit], chain, factors, unit);
    }
    c.ring = next;
}

template <Tile tile>
TILEWRIGHT_DEVICE void next_block_scales(Consumer<tile>& c, int k_block) {
    if constexpr (tile.scales_blocks()) {
        if (k_block % block_scale_columns != 0) return;
        if (k_block > 0) release_block_scales(c);
        barrier_wait(c.shared.block_scales_full[c.blocks.place], c.blocks.parity,
                     {c.arguments.report, BarrierName::block_scales_full, c.blocks.place});
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE void release_block_scales(Consumer<tile>& c) {
    if constexpr (tile.scales_blocks()) {
        if (c.lane == 0) barrier_arrive(c.shared.block_scales_empty[c.blocks.place]);
        c.blocks.advance();
    }
}

/// Sums of 128 products leave the tensor core for fp32 registers. Unrolled, so that what surrounds a k-block hides
/// under the promotion of the one before.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_promoted(Consumer<tile>& c, Sums<tile>& sums) {
    constexpr int unrolled = 4;
    for (int k_block = 0; k_block < c.k_blocks;) {
        next_block_scales(c, k_block);
#pragma unroll
        for (int i = 0; i < unrolled; ++i) {
            multiply_block<tile>(c, sums, k_block);
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
        c.release_previous(k_block);
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
