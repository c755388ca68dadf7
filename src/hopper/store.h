// The epilogue: a warp's sums become elements of D. Two ways, both through shared memory where A was: stored by TMA,
// where D is aligned for it; or element by element, with C, in any strides.
#pragma once

#include "hopper/multiply.h"

namespace tilewright::hopper {

/// How two neighbours become 16-bit elements of D.
struct Bf16 {
    static constexpr int bytes = 2;
    static TILEWRIGHT_DEVICE u32 pack(float low, float high) { return pack_bf16(low, high); }
};

struct F16 {
    static constexpr int bytes = 2;
    static TILEWRIGHT_DEVICE u32 pack(float low, float high) { return pack_f16(low, high); }
};

struct F32 {
    static constexpr int bytes = 4;
};

constexpr int element_bytes(OutputFormat format) { return format == OutputFormat::f32 ? 4 : 2; }

/// Stages that a tile keeps for its D: those that TMA stores from, or one as a scratch pad.
template <Tile tile>
constexpr int kept_stages(const Arguments& arguments) {
    return arguments.stored_by_tma ? tile.store_stages(element_bytes(arguments.format)) : 1;
}

/// Scales that do not vary along k: sum * (scale of the row * scale of the column).
template <Tile tile>
TILEWRIGHT_DEVICE void scale_sums(const Consumer<tile>& c, Sums<tile>& sums, int place) {
    constexpr int halves = tile.rows_per_warpgroup() / warpgroup_rows;
#pragma unroll
    for (int half = 0; half < halves; ++half) {
        const int row = c.first_row() + half * warpgroup_rows + c.warp * warp_rows + c.lane / 4;
        const float rows[2] = {load_shared(c.shared.row_scales[place][row]),
                               load_shared(c.shared.row_scales[place][row + 8])};
#pragma unroll
        for (int piece = 0; piece < tile.pieces(); ++piece) {
            float(&sum)[unit_registers<tile>] = sums[half * tile.pieces() + piece];
#pragma unroll
            for (int j = 0; j < tile.piece_columns() / 8; ++j) {
                const int column = piece * tile.piece_columns() + j * 8 + c.lane % 4 * 2;
                const float* pair = &c.shared.column_scales[place][column];
                const Pair columns = load_shared(*reinterpret_cast<const Pair*>(pair));
#pragma unroll
                for (int i = 0; i < 4; ++i) sum[4 * j + i] *= rows[i / 2] * (i % 2 == 0 ? columns.x : columns.y);
            }
        }
    }
}

/// 16 rows and 128 bytes of columns, from column `column` of the tile on, in the swizzled layout of TMA.
template <Tile tile, class Element>
TILEWRIGHT_DEVICE void stage_rows(const Sums<tile>& sums, u8* to, int half, int column, int lane) {
    const auto at = [&](int i) -> const float* {  // the fragment of columns column + 8 i
        const int first = column + i * 8;
        return &sums[half * tile.pieces() + first / tile.piece_columns()][first % tile.piece_columns() / 2];
    };
    if constexpr (Element::bytes == 2) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float *low = at(2 * j), *high = at(2 * j + 1);
            const int row = lane % 16, chunk = j * 2 + lane / 16;
            store_matrix(to + row * 128 + (chunk ^ row % 8) * 16, Element::pack(low[0], low[1]),
                         Element::pack(low[2], low[3]), Element::pack(high[0], high[1]),
                         Element::pack(high[2], high[3]));
        }
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (column + j * 8 >= tile.n) break;  // the scratch pad may be wider than what is left
            const float* value = at(j);
            const int row = lane / 4, chunk = j * 2 + lane % 4 / 2;
            u8* place = to + row * 128 + (chunk ^ row) * 16 + lane % 2 * 8;
            store_shared(*reinterpret_cast<Pair*>(place), {value[0], value[1]});
            store_shared(*reinterpret_cast<Pair*>(place + 8 * 128), {value[2], value[3]});
        }
    }
}

/// Each warp stages its 16 rows of each half where its rows of A lay.
template <Tile tile, class Element>
TILEWRIGHT_DEVICE void store_by_tma(Consumer<tile>& c, const Sums<tile>& sums, const WorkList<tile>& list) {
    constexpr int halves = tile.rows_per_warpgroup() / warpgroup_rows;
    constexpr int columns = store_row_bytes / Element::bytes;
    constexpr int warpgroup_warps = 4;
    const int lane = lane_index();
    int stage = c.ring.place;
#pragma unroll
    for (int column = 0; column < tile.n; column += columns) {
        stage = c.before(stage);
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            const int row = c.first_row() + half * warpgroup_rows + c.warp * warp_rows;
            stage_rows<tile, Element>(sums, c.shared.a[stage] + row * 128, half, column, lane);
        }
    }
    fence_async_proxy();
    sync_named(c.warpgroup + 1, warpgroup_threads);
    // A store for each stage, each by another warp: one warp alone would wait for the issue of each.
    constexpr int stores = tile.n / columns;
    for (int i = c.warp; i < stores; i += warpgroup_warps) {
        stage = c.ring.place - 1 - i;
        if (stage < 0) stage += tile.stages;
        if (lane == 0) {
            const Work work = list.work();
            tma_store(c.arguments.d, c.shared.a[stage] + c.first_row() * 128, work.column + i * columns,
                      work.row + c.first_row(), work.batch);
            tma_store_commit();
        }
    }
    c.storing = true;
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
    constexpr int columns = store_row_bytes / F32::bytes;
    const int lane = lane_index(), stage = c.before(c.ring.place);
#pragma unroll
    for (int half = 0; half < halves; ++half) {
        const int first = c.first_row() + half * warpgroup_rows + c.warp * warp_rows;
        u8* pad = c.shared.a[stage] + first * 128;
#pragma unroll
        for (int begin = 0; begin < tile.n; begin += columns) {
            stage_rows<tile, F32>(sums, pad, half, begin, lane);
            sync_warp();
            const int column = work.column + begin + lane;
            const int rows = c.arguments.m - work.row - first;
            const bool inside = begin + lane < tile.n && column < c.arguments.n;
#pragma unroll 1
            for (int row = 0; row < warp_rows && row < rows; ++row) {
                const u8* place = pad + row * 128 + (lane / 4 ^ row % 8) * 16 + lane % 4 * 4;
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

template <Tile tile, class Element>
TILEWRIGHT_DEVICE void store_as(Consumer<tile>& c, Sums<tile>& sums, const WorkList<tile>& list) {
    if constexpr (tile.stores_by_tma(Element::bytes)) {
        if (c.arguments.alpha != 1) {
#pragma unroll
            for (int unit = 0; unit < units<tile>; ++unit) {
#pragma unroll
                for (int i = 0; i < unit_registers<tile>; ++i) sums[unit][i] *= c.arguments.alpha;
            }
        }
        store_by_tma<tile, Element>(c, sums, list);
    }
}

/// To where the list of tiles says.
template <Tile tile>
TILEWRIGHT_DEVICE void store(Consumer<tile>& c, Sums<tile>& sums, const WorkList<tile>& list) {
    if constexpr (tile.scales_after()) scale_sums<tile>(c, sums, list.place());
    sync_named(c.warpgroup + 1, warpgroup_threads);  // all of the warpgroup have multiplied: its rows of A are free
    if (!c.by_tma) return store_by_element<tile>(c, sums, list.work());
    switch (c.arguments.format) {
        case OutputFormat::bf16: return store_as<tile, Bf16>(c, sums, list);
        case OutputFormat::f16: return store_as<tile, F16>(c, sums, list);
        case OutputFormat::f32: return store_as<tile, F32>(c, sums, list);
    }
}

}  // namespace tilewright::hopper
