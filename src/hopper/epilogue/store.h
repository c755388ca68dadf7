// The epilogue: a warp's sums become elements of D. Two ways, both through shared memory of D's own: staged for the
// storing warp (drain.h), where D is aligned for TMA; or element by element, with C, in any strides.
#pragma once

#include "hopper/epilogue/tma_store.h"
#include "hopper/mainloop/two_partials.h"

namespace tilewright::hopper {

template <Tile tile>
TILEWRIGHT_DEVICE void release_final_scales(Consumer<tile>& c) {
    sync_warp();
    warp_arrives<tile>(c.shared.final_scales_empty[c.finals.place], c.lane);
    c.finals.advance();
}

template <Tile tile>
TILEWRIGHT_DEVICE void wait_final_scales(Consumer<tile>& c) {
    const int place = c.finals.place;
    barrier_wait(c.shared.final_scales_full[place], c.finals.parity,
                 {c.patience, BarrierName::final_scales_full, place});
}

/// Scales that do not vary along k: sum * (scale of the row * scale of the column).
template <Tile tile>
TILEWRIGHT_DEVICE void scale_sums(Consumer<tile>& c, Sums<tile>& sums) {
    constexpr int halves = rows_per_warpgroup(tile) / wgmma_m;
    const int place = c.finals.place;
    wait_final_scales<tile>(c);
    const int lane = lane_index(), first = c.first_row() + c.warp * warp_rows + lane / 4;
    float rows[halves][2];
#pragma unroll
    for (int i = 0; i < 2 * halves; ++i) {
        rows[i / 2][i % 2] = load_shared(c.shared.row_scales[place][first + i / 2 * wgmma_m + i % 2 * 8]);
    }
#pragma unroll
    for (int column = 0; column < tile.shape.n; column += 8) {
        const float* pair = &c.shared.column_scales[place][column + lane % 4 * 2];
        const Pair columns = load_shared(*reinterpret_cast<const Pair*>(pair));
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            float* sum = &sums[half * wgmmas_along_n(tile) + column / wgmma_n(tile)][column % wgmma_n(tile) / 2];
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[i] *= rows[half][i / 2] * (i % 2 == 0 ? columns.x : columns.y);
        }
    }
    release_final_scales(c);
}

/// Of a tile in which the warpgroup has no rows.
template <Tile tile>
TILEWRIGHT_DEVICE void pass_over_final_scales(Consumer<tile>& c) {
    if constexpr (has_epilogue_scales(tile)) {
        wait_final_scales<tile>(c);
        release_final_scales(c);
    }
}

/// The fragment of columns `column` .. `column` + 7 of the tile, in the warp's 16 rows of `half`.
template <Tile tile>
TILEWRIGHT_DEVICE const float* fragment(const Sums<tile>& sums, int half, int column) {
    return &sums[half * wgmmas_along_n(tile) + column / wgmma_n(tile)][column % wgmma_n(tile) / 2];
}

/// Where row `row` of the warpgroup's share begins in the staged columns of store `index` of those at once.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE u8* staged_row(const Consumer<tile>& c, int index, int row) {
    return c.shared.d[c.warpgroup] + (index * share_rows(tile) + row) * store_pitch(tile, bytes);
}

TILEWRIGHT_DEVICE u32 pack_16_bit(const float* pair, bool as_bf16) {
    return as_bf16 ? pack_bf16(pair[0], pair[1]) : pack_f16(pair[0], pair[1]);
}

/// Swapped tiles: the tensor core's 16 rows are columns of D, its `count` columns from `begin` on rows of D.
template <Tile tile>
TILEWRIGHT_DEVICE void stage_transposed(const Consumer<tile>& c, const Sums<tile>& sums, int half, int begin, int count,
                                        int lane, bool as_bf16) {
    const int unit = c.warp * 2 + lane / 8 % 2;  // of a row's 16 bytes
#pragma unroll
    for (int column = begin; column < begin + count; column += 16) {
        const bool is_pair = column + 8 < begin + count;  // an odd eight is written twice
        const float* low = fragment<tile>(sums, half, column);
        const float* high = is_pair ? fragment<tile>(sums, half, column + 8) : low;
        const int row = column + lane % 8 + (is_pair ? lane / 16 * 8 : 0);
        store_matrix_transposed(staged_row<tile, 2>(c, half, row) + (unit ^ row % 8) * 16, pack_16_bit(low, as_bf16),
                                pack_16_bit(low + 2, as_bf16), pack_16_bit(high, as_bf16),
                                pack_16_bit(high + 2, as_bf16));
    }
}

/// A warp's 16 rows of `half` in `count` columns from `begin` on, as bf16 or f16.
template <Tile tile>
TILEWRIGHT_DEVICE void stage_16_bit(const Consumer<tile>& c, const Sums<tile>& sums, int half, int begin, int count,
                                    int lane, bool as_bf16) {
    if constexpr (tile.swap_ab) return stage_transposed<tile>(c, sums, half, begin, count, lane, as_bf16);
    constexpr int columns = store_columns(tile, 2);
    const auto pack = [&](const float* pair) { return pack_16_bit(pair, as_bf16); };
    const int row = half * wgmma_m + c.warp * warp_rows + lane % 16;
    const int swizzle = store_swizzled(tile, 2) ? row % 8 : 0;
#pragma unroll
    for (int column = begin; column < begin + count; column += 16) {
        const float* low = fragment<tile>(sums, half, column);
        const float* high = fragment<tile>(sums, half, column + 8);
        // Lanes 0 .. 15 hold the rows' addresses in the first 8 columns, the others in the second.
        u8* place = staged_row<tile, 2>(c, column / columns, row);
        int unit = column % columns / 8 + lane / 16;
        if (column / columns != (column + 8) / columns && lane >= 16) {
            place = staged_row<tile, 2>(c, (column + 8) / columns, row);
            unit = 0;
        }
        store_matrix(place + (unit ^ swizzle) * 16, pack(low), pack(low + 2), pack(high), pack(high + 2));
    }
}

/// 16 rows and 32 columns as f32 (fewer at the tile's end), in rows of 128 bytes, swizzled.
template <Tile tile>
TILEWRIGHT_DEVICE void stage_32_bit(const Sums<tile>& sums, u8* to, int half, int column, int lane) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (column + j * 8 >= tile.shape.n) break;
        const float* value = fragment<tile>(sums, half, column + 8 * j);
        const int row = lane / 4, unit = j * 2 + lane % 4 / 2;
        u8* place = to + row * row_bytes + (unit ^ row) * 16 + lane % 2 * 8;
        store_shared(*reinterpret_cast<Pair*>(place), {value[0], value[1]});
        store_shared(*reinterpret_cast<Pair*>(place + 8 * row_bytes), {value[2], value[3]});
    }
}

/// The warpgroup stages its rows for the storing warp (drain.h).
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE void store_by_tma(Consumer<tile>& c, const Sums<tile>& sums) {
    constexpr int halves = rows_per_warpgroup(tile) / wgmma_m;
    constexpr int columns = store_columns(tile, bytes), at_once = stores_at_once(tile, bytes);
    const int lane = lane_index();
#pragma unroll
    for (int begin = 0; begin < stores_per_share(tile, bytes); begin += at_once) {
        barrier_wait(c.shared.stored[c.warpgroup], c.staged.parity, {c.patience, BarrierName::stored, c.warpgroup});
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            if constexpr (bytes == 2) {
                stage_16_bit<tile>(c, sums, half, 0, tile.shape.n, lane, c.arguments.format == OutputFormat::bf16);
            } else {
                const int row = half * wgmma_m + c.warp * warp_rows;
#pragma unroll
                for (int i = 0; i < min(at_once, stores_per_share(tile, bytes) - begin); ++i) {
                    stage_32_bit<tile>(sums, staged_row<tile, 4>(c, i, row), half, (begin + i) * columns, lane);
                }
            }
        }
        fence_async_proxy();
        sync_warp();
        warp_arrives<tile>(c.shared.staged[c.warpgroup], lane);
        c.staged.advance();
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE void store_unit(Consumer<tile>& c, Sums<tile>& sums, int unit) {
    const int lane = lane_index();
    if (unit == 0) {
        if constexpr (has_epilogue_scales(tile)) scale_sums<tile>(c, sums);
        barrier_wait(c.shared.stored[c.warpgroup], c.staged.parity, {c.patience, BarrierName::stored, c.warpgroup});
    }
    stage_16_bit<tile>(c, sums, unit / wgmmas_along_n(tile), unit % wgmmas_along_n(tile) * wgmma_n(tile), wgmma_n(tile),
                       lane, true);
    if (unit < units<tile> - 1) return;
    fence_async_proxy();
    sync_warp();
    warp_arrives<tile>(c.shared.staged[c.warpgroup], lane);
    c.staged.advance();
}

/// D = C + alpha * sum of one element, rounded once. `plain`: as Tile::plain.
template <bool plain = false>
TILEWRIGHT_DEVICE void store_element(const Arguments& arguments, const Work& work, int row, int column, float sum) {
    const OutputView &d = arguments.output, &c = arguments.addend;
    const i64 to = work.batch * d.batch_stride + row * d.row_stride + column * d.column_stride;
    if constexpr (plain) return store_global(static_cast<u16*>(d.data) + to, to_bf16(sum));
    const i64 from = work.batch * c.batch_stride + row * c.row_stride + column * c.column_stride;
    const float alpha = arguments.alpha;
    if (arguments.format == OutputFormat::f32) {
        const float addend = c.data == nullptr ? 0 : load_global(static_cast<const float*>(c.data) + from);
        const float value = c.data == nullptr ? alpha * sum : fma(alpha, sum, addend);
        store_global(static_cast<float*>(d.data) + to, value);
    } else {
        const bool is_bf16 = arguments.format == OutputFormat::bf16;
        const u16 code = c.data == nullptr ? u16{0} : load_global(static_cast<const u16*>(c.data) + from);
        const float addend = is_bf16 ? from_bf16(code) : from_f16(code);
        const float value = c.data == nullptr ? alpha * sum : fma(alpha, sum, addend);
        store_global(static_cast<u16*>(d.data) + to, is_bf16 ? to_bf16(value) : to_f16(value));
    }
}

/// Any D: 16 rows and 32 columns of sums at a time pass through a scratch pad of the warp, so that neighbouring lanes
/// store neighbouring columns of D. Swapped tiles: these are the pad's rows.
template <Tile tile>
TILEWRIGHT_DEVICE void store_by_element(Consumer<tile>& c, const Sums<tile>& sums, const Work& work) {
    constexpr int halves = rows_per_warpgroup(tile) / wgmma_m;
    constexpr int columns = store_row_bytes / int(sizeof(float));
    const int lane = lane_index();
    // A lane's first row and only column of D in the pad.
    const int lane_row = tile.swap_ab ? lane / warp_rows : 0, lane_column = tile.swap_ab ? lane % warp_rows : lane;
    constexpr int rows_at_once = tile.swap_ab ? warp_threads / warp_rows : 1;
    u8* pad = c.shared.d[c.warpgroup] + c.warp * warp_rows * row_bytes;
#pragma unroll
    for (int half = 0; half < halves; ++half) {
        const int first = c.first_row() + half * wgmma_m + c.warp * warp_rows;
#pragma unroll
        for (int begin = 0; begin < tile.shape.n; begin += columns) {
            stage_32_bit<tile>(sums, pad, half, begin, lane);
            sync_warp();
            const int row_in_tile = tile.swap_ab ? begin : first, column_in_tile = tile.swap_ab ? first : begin;
            const int column = work.column + column_in_tile + lane_column;
            // The same in dense problems, where row_end would hold a register through the main loop.
            const int rows = (is_grouped(tile) ? work.row_end : c.arguments.m) - work.row - row_in_tile;
            const int rows_here = tile.swap_ab ? min(columns, tile.shape.n - begin) : warp_rows;
            const bool inside = (tile.swap_ab || begin + lane < tile.shape.n) && column < c.arguments.n;
#pragma unroll 1
            for (int row = lane_row; row < rows_here && row < rows; row += rows_at_once) {
                const int pad_row = tile.swap_ab ? lane_column : row, pad_column = tile.swap_ab ? row : lane_column;
                const u8* place = pad + pad_row * row_bytes + (pad_column / 4 ^ pad_row % 8) * 16 + pad_column % 4 * 4;
                const float sum = load_shared(*reinterpret_cast<const float*>(place));
                if (inside) store_element(c.arguments, work, work.row + row_in_tile + row, column, sum);
            }
            sync_warp();
        }
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE void store(Consumer<tile>& c, Sums<tile>& sums, const Work& work) {
    if constexpr (has_epilogue_scales(tile)) scale_sums<tile>(c, sums);
    if constexpr (is_fast(tile)) return store_by_tma<tile, 2>(c, sums);
    if (!c.by_tma) return store_by_element<tile>(c, sums, work);
    if (c.arguments.alpha != 1) {
#pragma unroll
        for (int unit = 0; unit < units<tile>; ++unit) {
#pragma unroll
            for (int i = 0; i < unit_registers<tile>; ++i) sums[unit][i] *= c.arguments.alpha;
        }
    }
    if (element_bytes(c.arguments.format) == 2) {
        if constexpr (can_store_by_tma(tile, 2)) store_by_tma<tile, 2>(c, sums);
    } else {
        if constexpr (can_store_by_tma(tile, 4)) store_by_tma<tile, 4>(c, sums);
    }
}

}  // namespace tilewright::hopper
