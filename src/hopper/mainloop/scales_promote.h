// The scales that promote sums of 128 products, from shared memory into a consumer thread's registers.
#pragma once

#include "hopper/block/consumer.h"

namespace tilewright::hopper {

/// The factors that promote a unit: scale of A times scale of B, each product rounded once. 128x128 scales differ
/// between groups of columns, or, swapped, stay the same for all that a warpgroup multiplies.
///
/// When they are read matters more than how often (docs/tried.md): what stands before a unit's products delays them,
/// and the compiler moves multiplications between them, where they delay the rest. So what a unit alone needs is read
/// after its products were issued, and is multiplied while the tensor core works.
template <Tile tile>
struct Factors {
    static constexpr int columns = wgmma_n(tile);
    static constexpr int group = columns_per_block_scale(tile);
    static constexpr int groups = has_block_scales(tile) && !tile.swap_ab ? block_scales_per_k_block(tile) : 1;
    static constexpr int rows = rows_per_warpgroup(tile) / 32;  // of a thread: two in each 64
    static constexpr int chunk = k_blocks_per_scale_copy(tile);
    using Chunk = float[chunk];

    Chunk row[scales_mma_rows(tile) ? rows : 1];
    Chunk block[groups];  // of groups of columns
    float product[2][groups];
    float column[scales_mma_columns(tile) ? columns / 4 : 1];  // of each column of the fragment

    TILEWRIGHT_DEVICE static void load(Chunk& to, const float* from) {
        if constexpr (chunk == 4) {
            const Quad quad = load_shared(*reinterpret_cast<const Quad*>(from));
#pragma unroll
            for (int i = 0; i < chunk; ++i) to[i] = quad.values[i];
        } else {
            to[0] = load_shared(*from);
        }
    }

    TILEWRIGHT_DEVICE void read_blocks(const Consumer<tile>& c, int k_block) {
        if constexpr (has_block_scales(tile)) {
            const int first = tile.swap_ab ? c.first_row() / group : 0;
#pragma unroll
            for (int i = 0; i < groups; ++i) {
                load(block[i],
                     &c.shared.block_scales[c.blocks.place][first + i][unsigned(k_block) % scale_chunk_k_blocks]);
            }
        }
    }

    /// Of the rows of one unit in the k-block (or the chunk that it begins) at `stage`.
    TILEWRIGHT_DEVICE void read_rows(const Consumer<tile>& c, int stage, int unit) {
        if constexpr (scales_mma_rows(tile)) {
            const int half = unit / wgmmas_along_n(tile);
            const float* first = c.shared.first_scales[stage] + (c.row_in_tile + half * wgmma_m) * chunk;
            load(row[2 * half], first);
            load(row[2 * half + 1], first + 8 * chunk);
        }
    }

    TILEWRIGHT_DEVICE void read_columns(const Consumer<tile>& c, int unit) {
        if constexpr (scales_mma_columns(tile)) {
            const float* first =
                c.shared.second_scales[c.ring.place] + unit % wgmmas_along_n(tile) * columns + c.lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < columns / 8; ++j) {
                const Pair scales = load_shared(*reinterpret_cast<const Pair*>(first + j * 8));
                column[2 * j] = scales.x;
                column[2 * j + 1] = scales.y;
            }
        }
    }

    /// Of `k_block`, from those of its four; no index into registers is known at run time only.
    TILEWRIGHT_DEVICE void take(const Factors& four, int k_block) {
        const int place = k_block % k_blocks_per_scale_copy(tile);
        const auto pick = [&](const Chunk& from) {
            float value = from[0];
#pragma unroll
            for (int i = 1; i < chunk; ++i) value = place == i ? from[i] : value;
            return value;
        };
#pragma unroll
        for (int i = 0; i < 2; ++i) row[i][0] = pick(four.row[i]);
#pragma unroll
        for (int i = 0; i < (has_block_scales(tile) ? groups : 0); ++i) block[i][0] = pick(four.block[i]);
    }

    TILEWRIGHT_DEVICE void combine(int unit, int in_chunk) {
        if constexpr (has_block_scales(tile) && scales_mma_rows(tile)) {
#pragma unroll
            for (int i = 0; i < 2 * groups; ++i) {
                product[i % 2][i / 2] = row[unit / wgmmas_along_n(tile) * 2 + i % 2][in_chunk] * block[i / 2][in_chunk];
            }
        }
    }

    /// Of element `i` (0 .. 3) of the unit's j-th 8 columns.
    TILEWRIGHT_DEVICE float of(int unit, int in_chunk, int j, int i) const {
        if constexpr (tile.swap_ab && has_block_scales(tile)) {
            return block[0][in_chunk] * column[2 * j + i % 2];
        } else if constexpr (scales_mma_columns(tile)) {
            return row[unit / wgmmas_along_n(tile) * 2 + i / 2][in_chunk] * column[2 * j + i % 2];
        } else {
            return product[i / 2][(unit % wgmmas_along_n(tile) * columns + j * 8) / group];
        }
    }
};

}  // namespace tilewright::hopper
