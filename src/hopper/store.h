// The epilogue: a warp's sums become elements of D. Two ways, both through shared memory where A was: stored by TMA,
// where D is aligned for it; or element by element, with C, in any strides.
#pragma once

#include "hopper/multiply.h"

namespace tilewright::hopper {

constexpr int element_bytes(OutputFormat format) { return format == OutputFormat::f32 ? 4 : 2; }

/// Stages that a tile keeps for its D: those that TMA stores from, or one as a scratch pad.
template <Tile tile>
constexpr int kept_stages(const Arguments& arguments) {
    if constexpr (tile.plain) return tile.store_stages(2);
    return arguments.stored_by_tma ? tile.store_stages(element_bytes(arguments.format)) : 1;
}

/// Scales that do not vary along k: sum * (scale of the row * scale of the column).
template <Tile tile>
TILEWRIGHT_DEVICE void scale_sums(Consumer<tile>& c, Sums<tile>& sums) {
    constexpr int halves = tile.rows_per_warpgroup() / warpgroup_rows;
    const int place = c.finals.place;
    barrier_wait(c.shared.final_scales_full[place], c.finals.parity,
                 {c.patience, BarrierName::final_scales_full, place});
    const int lane = lane_index(), first = c.first_row() + c.warp * warp_rows + lane / 4;
    float rows[halves][2];
#pragma unroll
    for (int i = 0; i < 2 * halves; ++i) {
        rows[i / 2][i % 2] = load_shared(c.shared.row_scales[place][first + i / 2 * warpgroup_rows + i % 2 * 8]);
    }
#pragma unroll
    for (int column = 0; column < tile.n; column += 8) {
        const float* pair = &c.shared.column_scales[place][column + lane % 4 * 2];
        const Pair columns = load_shared(*reinterpret_cast<const Pair*>(pair));
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            float* sum = &sums[half * tile.pieces() + column / tile.piece_columns()][column % tile.piece_columns() / 2];
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[i] *= rows[half][i / 2] * (i % 2 == 0 ? columns.x : columns.y);
        }
    }
    sync_warp();
    if (c.lane == 0) barrier_arrive(c.shared.final_scales_empty[place]);
    c.finals.advance();
}

/// The fragment of columns `column` .. `column` + 7 of the tile, in the warp's 16 rows of `half`.
template <Tile tile>
TILEWRIGHT_DEVICE const float* fragment(const Sums<tile>& sums, int half, int column) {
    return &sums[half * tile.pieces() + column / tile.piece_columns()][column % tile.piece_columns() / 2];
}

/// Where row `row` of the warpgroup's share begins in the staged columns that store `index` takes.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE u8* staged_row(const Consumer<tile>& c, int index, int row) {
    constexpr int pitch = tile.store_pitch(bytes);
    int stage = c.ring.place - 1 - index / tile.stores_per_stage(bytes);
    if (stage < 0) stage += tile.stages;
    u8* own = c.shared.a[stage] + c.first_row() * store_row_bytes;
    return own + index % tile.stores_per_stage(bytes) * tile.store_rows() * pitch + row * pitch;
}

/// A warp's 16 rows of `half`, as bf16 or f16.
template <Tile tile>
TILEWRIGHT_DEVICE void stage_16_bit(const Consumer<tile>& c, const Sums<tile>& sums, int half, int lane, bool as_bf16) {
    constexpr int columns = tile.store_columns(2);
    const auto pack = [&](const float* pair) {
        return as_bf16 ? pack_bf16(pair[0], pair[1]) : pack_f16(pair[0], pair[1]);
    };
    const int row = half * warpgroup_rows + c.warp * warp_rows + lane % 16;
    const int swizzle = tile.store_swizzled(2) ? row % 8 : 0;
#pragma unroll
    for (int column = 0; column < tile.n; column += 16) {
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
        if (column + j * 8 >= tile.n) break;
        const float* value = fragment<tile>(sums, half, column + 8 * j);
        const int row = lane / 4, unit = j * 2 + lane % 4 / 2;
        u8* place = to + row * row_bytes + (unit ^ row) * 16 + lane % 2 * 8;
        store_shared(*reinterpret_cast<Pair*>(place), {value[0], value[1]});
        store_shared(*reinterpret_cast<Pair*>(place + 8 * row_bytes), {value[2], value[3]});
    }
}

/// The staged rows that lie in the tile's piece, where those behind it are not to be touched: 16 bytes a lane.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE void store_piece(const Consumer<tile>& c, const Work& work) {
    constexpr int unit_bytes = int(sizeof(Quad));
    constexpr int units = tile.store_pitch(bytes) / unit_bytes;  // of a row in one store
    constexpr int own = warp_rows * units;                       // of the warp's rows of one half
    constexpr int halves = tile.rows_per_warpgroup() / warpgroup_rows;
    const OutputView& d = c.arguments.output;
    const int rows = work.row_end - work.row - c.first_row();
    u8* const corner = static_cast<u8*>(d.data) + (work.batch * d.batch_stride + work.column) * bytes;
#pragma unroll 1
    for (int i = lane_index(); i < halves * tile.stores(bytes) * own; i += warp_threads) {
        const int store = i / own % tile.stores(bytes), half = i / own / tile.stores(bytes);
        const int row = half * warpgroup_rows + c.warp * warp_rows + i % own / units, unit = i % units;
        const int column = store * tile.store_columns(bytes) + unit * (unit_bytes / bytes);
        if (row >= rows || work.column + column >= c.arguments.n) continue;
        const int place = tile.store_swizzled(bytes) ? unit ^ row % 8 : unit;
        const u8* from = staged_row<tile, bytes>(c, store, row) + place * unit_bytes;
        u8* to = corner + (work.row + c.first_row() + row) * d.row_stride * bytes + column * bytes;
        store_global(reinterpret_cast<Quad*>(to), load_shared(*reinterpret_cast<const Quad*>(from)));
    }
}

/// The warpgroup stages its rows where its rows of A lay, and stores them.
template <Tile tile, int bytes>
TILEWRIGHT_DEVICE void store_by_tma(Consumer<tile>& c, const Sums<tile>& sums, const Work& work) {
    constexpr int halves = tile.rows_per_warpgroup() / warpgroup_rows;
    constexpr int columns = tile.store_columns(bytes);
    const int lane = lane_index();
#pragma unroll
    for (int half = 0; half < halves; ++half) {
        if constexpr (bytes == 2) {
            stage_16_bit<tile>(c, sums, half, lane, tile.plain || c.arguments.format == OutputFormat::bf16);
        } else {
            const int row = half * warpgroup_rows + c.warp * warp_rows;
#pragma unroll
            for (int i = 0; i < tile.stores(4); ++i) {
                stage_32_bit<tile>(sums, staged_row<tile, 4>(c, i, row), half, i * columns, lane);
            }
        }
    }
    fence_async_proxy();
    sync_named(c.warpgroup + 1, warpgroup_threads);
    c.storing = true;
    if constexpr (tile.grouped()) {
        const int end = work.row + c.first_row() + tile.rows_per_warpgroup();
        if (end > work.row_end) return store_piece<tile, bytes>(c, work);
    }
    // Each store by another warp: one warp alone would wait for the issue of each.
#pragma unroll 1
    for (int i = c.warp; i < tile.stores(bytes); i += warpgroup_threads / warp_threads) {
        if (lane == 0) {
            tma_store(c.arguments.d, staged_row<tile, bytes>(c, i, 0), work.column + i * columns,
                      work.row + c.first_row(), work.batch);
            tma_store_commit();
        }
    }
}

/// D = C + alpha * sum of one element, rounded once.
TILEWRIGHT_DEVICE void store_element(const Arguments& arguments, const Work& work, int row, int column, float sum) {
    const OutputView &d = arguments.output, &c = arguments.addend;
    const i64 to = work.batch * d.batch_stride + row * d.row_stride + column * d.column_stride;
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

/// Any D: 16 rows and 32 columns of sums at a time pass through a scratch pad, where the warp's rows of A lay in the
/// last stage, so that neighbouring lanes store neighbouring columns.
template <Tile tile>
TILEWRIGHT_DEVICE void store_by_element(Consumer<tile>& c, const Sums<tile>& sums, const Work& work) {
    constexpr int halves = tile.rows_per_warpgroup() / warpgroup_rows;
    constexpr int columns = store_row_bytes / int(sizeof(float));
    const int lane = lane_index(), stage = c.before(c.ring.place);
#pragma unroll
    for (int half = 0; half < halves; ++half) {
        const int first = c.first_row() + half * warpgroup_rows + c.warp * warp_rows;
        u8* pad = c.shared.a[stage] + first * row_bytes;
#pragma unroll
        for (int begin = 0; begin < tile.n; begin += columns) {
            stage_32_bit<tile>(sums, pad, half, begin, lane);
            sync_warp();
            const int column = work.column + begin + lane;
            // The same in dense problems, where row_end would hold a register through the main loop.
            const int rows = (tile.grouped() ? work.row_end : c.arguments.m) - work.row - first;
            const bool inside = begin + lane < tile.n && column < c.arguments.n;
#pragma unroll 1
            for (int row = 0; row < warp_rows && row < rows; ++row) {
                const u8* place = pad + row * row_bytes + (lane / 4 ^ row % 8) * 16 + lane % 4 * 4;
                const float sum = load_shared(*reinterpret_cast<const float*>(place));
                if (inside) store_element(c.arguments, work, work.row + first + row, column, sum);
            }
            sync_warp();
        }
    }
    fence_async_proxy();  // what TMA loads there next comes after these writes
    sync_warp();
    if (c.k_blocks > 0) c.release(stage);
}

template <Tile tile>
TILEWRIGHT_DEVICE void store(Consumer<tile>& c, Sums<tile>& sums, const Work& work) {
    if constexpr (tile.scales_after()) scale_sums<tile>(c, sums);
    sync_named(c.warpgroup + 1, warpgroup_threads);  // all of the warpgroup have multiplied: its rows of A are free
    if constexpr (tile.plain) return store_by_tma<tile, 2>(c, sums, work);
    if (!c.by_tma) return store_by_element<tile>(c, sums, work);
    if (c.arguments.alpha != 1) {
#pragma unroll
        for (int unit = 0; unit < units<tile>; ++unit) {
#pragma unroll
            for (int i = 0; i < unit_registers<tile>; ++i) sums[unit][i] *= c.arguments.alpha;
        }
    }
    if (element_bytes(c.arguments.format) == 2) {
        if constexpr (tile.stores_by_tma(2)) store_by_tma<tile, 2>(c, sums, work);
    } else {
        if constexpr (tile.stores_by_tma(4)) store_by_tma<tile, 4>(c, sums, work);
    }
}

}  // namespace tilewright::hopper
