// The epilogue's first phase: all accumulators of a tile are multiplied by the epilogue scales of their rows and
// columns.
#pragma once

#include "formats/codec.h"
#include "hopper/epilogue/accumulators.h"

namespace tilewright::hopper {

template <Tile tile>
TILEWRIGHT_DEVICE void release_epilogue_scales(Consumer<tile>& c) {
    sync_warp();
    warp_arrives<tile>(c.shared.epilogue_scales_empty[c.epilogue_scales.stage], c.lane);
    c.epilogue_scales.advance();
}

/// For a tile in which the warpgroup has no rows.
template <Tile tile>
TILEWRIGHT_DEVICE void skip_epilogue_scales(Consumer<tile>& c) {
    if constexpr (has_epilogue_scales(tile)) {
        wait_epilogue_scales<tile>(c);
        release_epilogue_scales(c);
    }
}

/// The sum times the epilogue scales of its row and column, in the canonical order. The sign of MXFP4's factor tells
/// that the row is wide; the tokens' scales of a wide row were applied in the mainloop. `deferring`: scales in the
/// mainloop left powers of two, which are 1 otherwise.
template <Tile tile, bool deferring>
TILEWRIGHT_DEVICE float scaled(float sum, float row, float column) {
    float of_a = tile.swap_ab ? column : row, of_b = tile.swap_ab ? row : column;
    bool wide = false;
    if constexpr (tile.b.scaling == Scaling::factor && (has_windows(tile) || has_wide_rows(tile))) {
        const u32 bits = __builtin_bit_cast(u32, of_b);
        wide = has_windows(tile) && bits >> 31 != 0;
        of_b = __builtin_bit_cast(float, bits & 0x7FFF'FFFF);
    }
    if constexpr (ends_with_tensor_scale(tile)) sum *= formats::nvfp4_tensor_factor();
    if constexpr (tile.b.scaling == Scaling::factor && !multiplies_bf16(tile)) {
        if (!wide) {  // the factor is smaller than the row's scale by this amount
            constexpr float top = formats::power_of_two(6);
            of_b *= top;
            sum *= 1 / top;
        }
    }
    if constexpr (defers_scales(tile) && !deferring) return sum * (defers_scales_of_a(tile) ? of_b : of_a);
    if constexpr (defers_scales_of_a(tile)) of_a = formats::inverse_power(of_a);
    if constexpr (defers_scales_of_b(tile)) of_b = formats::inverse_power(of_b);
    if (wide) of_a = 1;
    if constexpr (tile.b.scaling == Scaling::factor || defers_scales(tile) || ends_with_tensor_scale(tile))
        return formats::multiply_by_both(sum, of_a, of_b);
    return sum * (of_a * of_b);
}

/// Scales all accumulators; `deferring` as in `scaled`.
template <Tile tile, bool deferring>
TILEWRIGHT_DEVICE void scale_all(const Consumer<tile>& c, Accumulators<tile>& accumulators) {
    constexpr int halves = rows_per_warpgroup(tile) / wgmma_m;
    const int slot = c.epilogue_scales.stage;
    const int lane = lane_index(), first = c.first_row() + c.warp * warp_rows + fragment_row(tile, lane);
    constexpr int step = fragment_row_step(tile);
    float rows[halves][2];
#pragma unroll
    for (int i = 0; i < 2 * halves; ++i) {
        rows[i / 2][i % 2] = load_shared(c.shared.row_scales[slot][first + i / 2 * wgmma_m + i % 2 * step]);
    }
#pragma unroll
    for (int column = 0; column < tile.shape.n; column += 8) {
        const float* pair = &c.shared.column_scales[slot][column + lane % 4 * 2];
        const Pair columns = load_shared(*reinterpret_cast<const Pair*>(pair));
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            float* value = fragment<tile>(accumulators, half, column);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                value[i] = scaled<tile, deferring>(value[i], rows[half][i / 2], i % 2 == 0 ? columns.x : columns.y);
            }
        }
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE void scale_accumulators(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    wait_epilogue_scales<tile>(c);
    if (defers_scales(tile) && c.defers) {
        scale_all<tile, true>(c, accumulators);
    } else {
        scale_all<tile, false>(c, accumulators);
    }
    release_epilogue_scales(c);
}

/// The same for one fragment. Elements 0 and 1 are in the tensor core's row `m`, columns `n` and n + 1. Elements 2 and
/// 3 are in the lane's second row.
template <Tile tile>
TILEWRIGHT_DEVICE void scale_fragment(const Consumer<tile>& c, Quad& values, int m, int n) {
    const int slot = c.epilogue_scales.stage;
    const Pair columns = load_shared(*reinterpret_cast<const Pair*>(&c.shared.column_scales[slot][n]));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float row = load_shared(c.shared.row_scales[slot][m + i / 2 * fragment_row_step(tile)]);
        const float column = i % 2 == 0 ? columns.x : columns.y;
        values.values[i] = defers_scales(tile) && c.defers ? scaled<tile, true>(values.values[i], row, column)
                                                           : scaled<tile, false>(values.values[i], row, column);
    }
}

}  // namespace tilewright::hopper
