// The promotion of partial accumulators: it reads their scales from shared memory into a consumer thread's registers,
// and adds scaled products to the accumulators.
#pragma once

#include "hopper/block/ring.h"

namespace tilewright::hopper {

template <Design design>
TILEWRIGHT_DEVICE void release_block_scales(Consumer<design>& c) {
    if constexpr (design.block_scales_per_k_block > 0) {
        sync_warp();
        warp_arrives<design>(c.shared.block_scales_empty[c.blocks.stage], c.lane);
        c.blocks.advance();
    }
}

/// If `k_block` is the first of a chunk of 128x128 scales: waits for the chunk.
template <Design design>
TILEWRIGHT_DEVICE void next_block_scales(Consumer<design>& c, int k_block) {
    if constexpr (design.block_scales_per_k_block > 0) {
        if (unsigned(k_block) % scale_chunk_k_blocks != 0) return;
        if (k_block > 0) release_block_scales(c);
        barrier_wait(c.shared.block_scales_full[c.blocks.stage], c.blocks.phase,
                     {c.budget, BarrierName::block_scales_full, c.blocks.stage});
    }
}

/// Loads the scales of a lane's columns. `first` is the scale of the first one.
template <int count>
TILEWRIGHT_DEVICE void load_columns(float (&columns)[count], const float* first) {
#pragma unroll
    for (int j = 0; j < count / 2; ++j) {
        const Pair pair = load_shared(*reinterpret_cast<const Pair*>(first + j * 8));
        columns[2 * j] = pair.x;
        columns[2 * j + 1] = pair.y;
    }
}

/// The scales of a subtile: the scale of A times the scale of B, each product rounded once. If B's scale does not vary
/// along k, only the scale of A. Scales of 128x128 blocks differ by operand. Those of B differ between blocks of
/// columns; with swap-AB they are the same for all that a warpgroup multiplies. Those of A are read like 1x128 scales.
///
/// The time of reading matters more than the number of reads (docs/hopper_lessons.md). Instructions ahead of a
/// subtile's wgmmas delay them, and the compiler moves multiplications between them, where they delay the rest. So
/// scales that only one subtile needs are read after its wgmmas were issued. They are multiplied while the tensor core
/// works.
template <Design design>
struct PromotionScales {
    // Functions, because NVRTC puts each constant of a class into the kernel, with a name as long as the tile's.
    static constexpr int columns() { return design.wgmma_n; }
    static constexpr int block_columns() { return design.d_columns / design.block_scales_per_k_block; }
    static constexpr int blocks() { return design.swap_ab ? 1 : max(design.block_scales_per_k_block, 1); }
    static constexpr int rows() { return design.rows_per_warpgroup / 32; }  // of a thread: two per 64 rows
    static constexpr bool hides_uniform_blocks() {
        return design.groups != Groups::rows && design.k_blocks_per_scale_copy != 4 && !design.swap_ab &&
               design.shape.n > 128;
    }
    static constexpr int k_blocks() { return design.k_blocks_per_scale_copy; }
    /// Whether column scales become products, once for all rows of a warpgroup (multiply/fill_next.h).
    static constexpr bool multiplies_columns() {
        return design.swap_ab && design.block_scales_per_k_block > 0 && design.loop == Loop::filling_next;
    }
    using OfKBlocks = float[k_blocks()];

    OfKBlocks row[design.mma_a.scales_of_row > 0 ? rows() : 1];
    OfKBlocks block[blocks()];
    float product[2][blocks()];
    float column[design.mma_b.scales_of_row > 0 ? columns() / 4 : 1];  // one per column of the fragment

    TILEWRIGHT_DEVICE static void load(OfKBlocks& to, const float* from) {
        if constexpr (k_blocks() == 4) {
            const Quad quad = load_shared(*reinterpret_cast<const Quad*>(from));
#pragma unroll
            for (int i = 0; i < k_blocks(); ++i) to[i] = quad.values[i];
        } else {
            to[0] = load_shared(*from);
        }
    }

    TILEWRIGHT_DEVICE void read_blocks(const Consumer<design>& c, int k_block) {
        if constexpr (design.block_scales_per_k_block > 0) {
            // Zero, but the compiler does not know it. It might move scales that are the same in all lanes to uniform
            // registers (R2UR between wgmmas), each after a wait for its read.
            const int none = hides_uniform_blocks() ? c.row_in_tile >> 9 : 0;
            const int first = design.swap_ab ? c.first_row() / block_columns() : none;
#pragma unroll
            for (int i = 0; i < blocks(); ++i) {
                load(block[i],
                     &c.shared.block_scales[c.blocks.stage][first + i][unsigned(k_block) % scale_chunk_k_blocks]);
            }
        }
    }

    /// Reads the scales of the subtile's rows for the k-block at `stage`. By four: for the four k-blocks that begin
    /// there.
    TILEWRIGHT_DEVICE void read_rows(const Consumer<design>& c, int stage, int subtile) {
        if constexpr (design.mma_a.scales_of_row > 0) {
            const int half = subtile / design.wgmmas_along_n;
            const float* first = c.shared.mma_a_scales[stage] + (c.row_in_tile + half * wgmma_m) * k_blocks();
            load(row[2 * half], first);
            load(row[2 * half + 1], first + fragment_row_step(design) * k_blocks());
        }
    }

    TILEWRIGHT_DEVICE void read_columns(const Consumer<design>& c, int subtile) {
        if constexpr (design.mma_b.scales_of_row > 0) {
            load_columns(column, c.shared.mma_b_scales[c.ring.stage] + first_column(c, subtile));
        }
    }

    /// Removes from column scales the power of two that they leave to the epilogue (multiply/deferred.h).
    TILEWRIGHT_DEVICE void defer_columns(const Consumer<design>& c, int subtile) {
        if constexpr (design.mma_b.scales_of_row > 0) {
            const float* const first = &c.shared.column_scales[c.epilogue_scales.stage][first_column(c, subtile)];
#pragma unroll
            for (int j = 0; j < columns() / 8; ++j) {
                const Pair pair = load_shared(*reinterpret_cast<const Pair*>(first + j * 8));
                column[2 * j] *= pair.x;
                column[2 * j + 1] *= pair.y;
            }
        }
    }
    /// The same for the rows of one half of the warpgroup.
    TILEWRIGHT_DEVICE void defer_rows(const Consumer<design>& c, int half) {
        if constexpr (design.mma_a.scales_of_row > 0) {
            const float* const first = &c.shared.row_scales[c.epilogue_scales.stage][c.row_in_tile + half * wgmma_m];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float factor = load_shared(first[i * fragment_row_step(design)]);
#pragma unroll
                for (float& scale : row[2 * half + i]) scale *= factor;
            }
        }
    }

    /// Row scales that were read by four: moves on to the next k-block.
    TILEWRIGHT_DEVICE void move_rows() {
#pragma unroll
        for (auto& scales : row) {
#pragma unroll
            for (int i = 1; i < k_blocks(); ++i) scales[i - 1] = scales[i];
        }
    }

    /// The lane's first column in the tile.
    TILEWRIGHT_DEVICE static int first_column(const Consumer<design>& c, int subtile) {
        return subtile % design.wgmmas_along_n * columns() + c.lane % 4 * 2;
    }

    /// For promotion per step: reads the scales of the `step`-th 32 k-elements of the k-block at `stage`. Within a
    /// step, subtiles with the same columns follow one another, and the first of them reads the column scales. Wide
    /// rows use scales without deferral, so that with windows the column scales are deferred only at promotion.
    template <bool deferring>
    TILEWRIGHT_DEVICE void read_step(const Consumer<design>& c, int stage, int step, int subtile) {
        static_assert(design.order.chain == step_k);
        const int half = subtile / design.wgmmas_along_n, part = subtile % design.wgmmas_along_n;
        if (design.mma_a.scales_of_row > 0 && part == 0) {
            const float* const of_rows =
                c.shared.mma_a_scales[stage] + step * design.shape.m + c.row_in_tile + half * wgmma_m;
            load(row[2 * half], of_rows);
            load(row[2 * half + 1], of_rows + fragment_row_step(design));
            if constexpr (deferring) defer_rows(c, half);
        }
        if (design.mma_b.scales_of_row > 0 && half == 0) {
            const float* const of_columns = c.shared.mma_b_scales[stage] + step * round_up(design.shape.n, 32);
            load_columns(column, of_columns + first_column(c, subtile));
            if constexpr (deferring && design.feed != FeedKind::windowed) defer_columns(c, subtile);
        }
    }

    TILEWRIGHT_DEVICE void multiply(int subtile, int k_block_in_copy) {
        if constexpr (design.block_scales_per_k_block > 0 && design.mma_a.scales_of_row > 0) {
#pragma unroll
            for (int i = 0; i < 2 * blocks(); ++i) {
                product[i % 2][i / 2] =
                    row[subtile / design.wgmmas_along_n * 2 + i % 2][k_block_in_copy] * block[i / 2][k_block_in_copy];
            }
        }
    }

    /// Multiplies the column scales by the 128x128 scale of all that a warpgroup multiplies.
    TILEWRIGHT_DEVICE void multiply_columns() {
        if constexpr (multiplies_columns()) {
#pragma unroll
            for (float& scale : column) scale *= block[0][0];
        }
    }

    /// The scale of element `i` (0 .. 3) of the subtile's j-th 8 columns.
    TILEWRIGHT_DEVICE float for_element(int subtile, int k_block_in_copy, int j, int i) const {
        if constexpr (multiplies_columns()) {
            return column[2 * j + i % 2];
        } else if constexpr (design.swap_ab && design.block_scales_per_k_block > 0) {
            return block[0][k_block_in_copy] * column[2 * j + i % 2];
        } else if constexpr (design.mma_b.scales_of_row > 0 && design.mma_a.scales_of_row == 0) {
            return column[2 * j + i % 2];
        } else if constexpr (design.mma_b.scales_of_row == 0 && design.block_scales_per_k_block == 0) {
            return row[subtile / design.wgmmas_along_n * 2 + i / 2][k_block_in_copy];
        } else if constexpr (design.mma_b.scales_of_row > 0) {
            return row[subtile / design.wgmmas_along_n * 2 + i / 2][k_block_in_copy] * column[2 * j + i % 2];
        } else {
            constexpr int width = columns(), block_width = block_columns();
            return product[i / 2][(subtile % design.wgmmas_along_n * width + j * 8) / block_width];
        }
    }
};

/// The position of a k-block in its tile, as a compile-time constant.
struct KBlockPlace {
    bool first = false;
    int in_four = 0;  // k-block % 4
};

/// accumulator += partial * scale, in one of a lane's two rows.
template <Design design>
TILEWRIGHT_DEVICE void promote_row(float (&accumulator)[design.wgmma_n / 2], const Partial<design>& partial,
                                   const PromotionScales<design>& scales, int subtile, const KBlockPlace& place,
                                   int row) {
    const int k_block_in_copy = place.in_four % design.k_blocks_per_scale_copy;
#pragma unroll
    for (int i = 0; i < (design.wgmma_n / 2) / 2; ++i) {
        const int j = i / 2, index = 4 * j + 2 * row + i % 2;
        const float before = place.first ? 0.0F : accumulator[index];
        if constexpr (design.order.has(ScaleUse::chains)) {
            accumulator[index] =
                fma(partial[index], scales.for_element(subtile, k_block_in_copy, j, 2 * row + i % 2), before);
        } else {
            accumulator[index] = before + partial[index];
        }
    }
}

/// Promotes the rows in turn, so that the scales of both rows are not read from registers again for each instruction.
/// The tensor core's reads and writes use the same register banks.
template <Design design>
TILEWRIGHT_DEVICE void promote(float (&accumulator)[design.wgmma_n / 2], const Partial<design>& partial,
                               const PromotionScales<design>& scales, int subtile, const KBlockPlace& place) {
#pragma unroll
    for (int row = 0; row < 2; ++row) promote_row<design>(accumulator, partial, scales, subtile, place, row);
}

/// A tile's accumulators ahead of its first k-block.
template <Design design>
TILEWRIGHT_DEVICE void clear(Accumulators<design>& accumulators) {
#pragma unroll
    for (int subtile = 0; subtile < design.subtiles; ++subtile) {
#pragma unroll
        for (int i = 0; i < (design.wgmma_n / 2); ++i) accumulators[subtile][i] = 0;
    }
}

}  // namespace tilewright::hopper
