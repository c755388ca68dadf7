// Consumer warps write accumulators to D's staging memory, as 16-bit or f32 elements.
#pragma once

#include "hopper/store/convert.h"
#include "hopper/store/scale.h"

namespace tilewright::hopper {

/// Row `row` of the warpgroup's share, in store `index` of the stores that are staged together.
template <Design design, int bytes>
TILEWRIGHT_DEVICE u8* staged_row(const Consumer<design>& c, int index, int row) {
    constexpr int pitch = store_of(design, bytes).pitch;
    return c.shared.d[c.warpgroup] + (index * design.share_rows + row) * pitch;
}

/// Swap-AB tiles whose lanes have adjacent rows of the accumulators, which are columns of D. A lane has two elements of
/// each of its rows of D, in one word. Eight lanes write 32 bytes of a row. The four groups of eight lanes write every
/// other row, so that no two lanes share a bank.
template <Design design>
TILEWRIGHT_DEVICE void stage_paired(const Consumer<design>& c, const Accumulators<design>& accumulators, int half,
                                    int begin, int count, int lane, bool as_bf16) {
    const int chunk = c.warp * 2 + lane / 16, byte = lane / 4 % 4 * 4;
    const auto store = [&](int row, float low, float high) {
        u8* const place = staged_row<design, 2>(c, half, row) + (chunk ^ row % 8) * 16 + byte;
        store_shared(*reinterpret_cast<u32*>(place), pack_16_bit(low, high, as_bf16));
    };
#pragma unroll
    for (int column = begin; column < begin + count; column += 8) {
        const float* value = fragment<design>(accumulators, half, column);
        const int row = column + lane % 4 * 2;
        store(row, value[0], value[2]);
        store(row + 1, value[1], value[3]);
    }
}

/// Swap-AB tiles: the 16 rows of the accumulators are columns of D. Their `count` columns from `begin` on are rows of
/// D.
template <Design design>
TILEWRIGHT_DEVICE void stage_transposed(const Consumer<design>& c, const Accumulators<design>& accumulators, int half,
                                        int begin, int count, int lane, bool as_bf16) {
    if constexpr (design.mma_a.is_mn_major()) {
        return stage_paired<design>(c, accumulators, half, begin, count, lane, as_bf16);
    }
    const int chunk = c.warp * 2 + lane / 8 % 2;  // of 16 bytes
#pragma unroll
    for (int column = begin; column < begin + count; column += 16) {
        const bool is_pair = column + 8 < begin + count;  // if the number of 8-column groups is odd, the last is
                                                          // written twice
        const float* low = fragment<design>(accumulators, half, column);
        const float* high = is_pair ? fragment<design>(accumulators, half, column + 8) : low;
        const int row = column + lane % 8 + (is_pair ? lane / 16 * 8 : 0);
        store_matrix_transposed(staged_row<design, 2>(c, half, row) + (chunk ^ row % 8) * 16, pack_16_bit(low, as_bf16),
                                pack_16_bit(low + 2, as_bf16), pack_16_bit(high, as_bf16),
                                pack_16_bit(high + 2, as_bf16));
    }
}

/// The row of a warp's 16 whose address a lane gives to stmatrix. The rows that are first rows of the lanes precede the
/// others.
constexpr int staged_fragment_row(const Design& design, int lane) {
    return design.mma_a.is_mn_major() ? lane % 8 * 2 + lane / 8 % 2 : lane % 16;
}

/// Stages a warp's 16 rows of `half`, `count` columns from `begin` on, as bf16 or f16.
template <Design design>
TILEWRIGHT_DEVICE void stage_16_bit(const Consumer<design>& c, const Accumulators<design>& accumulators, int half,
                                    int begin, int count, int lane, bool as_bf16) {
    if constexpr (design.swap_ab) return stage_transposed<design>(c, accumulators, half, begin, count, lane, as_bf16);
    constexpr StoreBox to_d = store_of(design, 2);
    constexpr int columns = to_d.columns;
    const auto pack = [&](const float* pair) { return pack_16_bit(pair, as_bf16); };
    const int row = half * wgmma_m + c.warp * warp_rows + staged_fragment_row(design, lane);
    const int swizzle = to_d.swizzled ? row % 8 : 0;
#pragma unroll
    for (int column = begin; column < begin + count; column += 16) {
        const float* low = fragment<design>(accumulators, half, column);
        const float* high = fragment<design>(accumulators, half, column + 8);
        // Lanes 0 .. 15 have the addresses of the rows in the first 8 columns, the other lanes in the second 8.
        u8* place = staged_row<design, 2>(c, column / columns, row);
        int chunk = column % columns / 8 + lane / 16;
        if (column / columns != (column + 8) / columns && lane >= 16) {
            place = staged_row<design, 2>(c, (column + 8) / columns, row);
            chunk = 0;
        }
        store_matrix(place + (chunk ^ swizzle) * 16, pack(low), pack(low + 2), pack(high), pack(high + 2));
    }
}

/// Stages 16 rows and 32 columns (fewer at the tile's end) as f32, in swizzled rows of 128 bytes.
template <Design design>
TILEWRIGHT_DEVICE void stage_32_bit(const Accumulators<design>& accumulators, u8* to, int half, int column, int lane) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (column + j * 8 >= design.shape.n) break;
        const float* value = fragment<design>(accumulators, half, column + 8 * j);
        const int row = fragment_row(design, lane), chunk = j * 2 + lane % 4 / 2;
        const int swizzle = design.mma_a.is_mn_major() ? row % 8 : row;
        u8* place = to + row * row_bytes + (chunk ^ swizzle) * 16 + lane % 2 * 8;
        store_shared(*reinterpret_cast<Pair*>(place), {value[0], value[1]});
        // Rows that are 8 apart have one swizzle. The swizzles of a pair of rows differ in the lowest bit.
        if constexpr (design.mma_a.is_mn_major())
            place = to + row * row_bytes + (chunk ^ swizzle ^ 1) * 16 + lane % 2 * 8;
        store_shared(*reinterpret_cast<Pair*>(place + fragment_row_step(design) * row_bytes), {value[2], value[3]});
    }
}

/// Stages the warpgroup's share for the store warp (tma_store.h).
template <Design design, int bytes>
TILEWRIGHT_DEVICE void store_by_tma(Consumer<design>& c, const Accumulators<design>& accumulators) {
    constexpr int halves = design.rows_per_warpgroup / wgmma_m;
    constexpr StoreBox to_d = store_of(design, bytes);
    constexpr int columns = to_d.columns, at_once = to_d.at_once;
    const int lane = lane_index();
#pragma unroll
    for (int begin = 0; begin < to_d.per_share; begin += at_once) {
        c.stamp(Event::epilogue);
        barrier_wait(c.shared.stored[c.warpgroup], c.staged.phase, {c.budget, BarrierName::stored, c.warpgroup});
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            if constexpr (bytes == 2) {
                stage_16_bit<design>(c, accumulators, half, 0, design.shape.n, lane,
                                     c.arguments.format == OutputFormat::bf16);
            } else {
                const int row = half * wgmma_m + c.warp * warp_rows;
#pragma unroll
                for (int i = 0; i < min(at_once, to_d.per_share - begin); ++i) {
                    stage_32_bit<design>(accumulators, staged_row<design, 4>(c, i, row), half, (begin + i) * columns,
                                         lane);
                }
            }
        }
        fence_async_proxy();
        sync_warp();
        warp_arrives<design>(c.shared.staged[c.warpgroup], lane);
        c.staged.advance();
        c.stamp(Event::staged);
    }
}

/// Stages one subtile, for epilogues that overlap the next tile's mainloop.
template <Design design>
TILEWRIGHT_DEVICE void store_subtile(Consumer<design>& c, Accumulators<design>& accumulators, int subtile) {
    const int lane = lane_index();
    if (subtile == 0) {
        c.stamp(Event::epilogue);
        if constexpr (design.has_epilogue_scales) scale_accumulators<design>(c, accumulators);
        barrier_wait(c.shared.stored[c.warpgroup], c.staged.phase, {c.budget, BarrierName::stored, c.warpgroup});
    }
    constexpr int columns = design.wgmma_n;
    stage_16_bit<design>(c, accumulators, subtile / design.wgmmas_along_n, subtile % design.wgmmas_along_n * columns,
                         columns, lane, true);
    if (subtile < design.subtiles - 1) return;
    fence_async_proxy();
    sync_warp();
    warp_arrives<design>(c.shared.staged[c.warpgroup], lane);
    c.staged.advance();
    c.stamp(Event::staged);
}

}  // namespace tilewright::hopper
