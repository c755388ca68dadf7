// The epilogue's first phase, over all accumulators of a tile: the epilogue scales of their rows and columns.
#pragma once

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

/// sum * (scale of the row * scale of the column). The factor of a row of MXFP4 weights is no scale to the canonical
/// order: it multiplies what the tokens' scale has multiplied, in the mainloop if the row is wide, as the factor's sign
/// tells.
template <Tile tile>
TILEWRIGHT_DEVICE float scaled(float sum, float row, float column) {
    if constexpr (has_windows(tile)) {
        const u32 bits = __builtin_bit_cast(u32, row);
        return sum * (bits >> 31 != 0 ? 1.0F : column) * __builtin_bit_cast(float, bits & 0x7FFF'FFFF);
    }
    if constexpr (has_wide_rows(tile)) {  // the sign is the mainloop's
        return sum * column * __builtin_bit_cast(float, __builtin_bit_cast(u32, row) & 0x7FFF'FFFF);
    }
    if constexpr (tile.b.scaling != Scaling::factor) return sum * (row * column);
    return tile.swap_ab ? sum * column * row : sum * row * column;
}

template <Tile tile>
TILEWRIGHT_DEVICE void scale_accumulators(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    constexpr int halves = rows_per_warpgroup(tile) / wgmma_m;
    const int slot = c.epilogue_scales.stage;
    wait_epilogue_scales<tile>(c);
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
                value[i] = scaled<tile>(value[i], rows[half][i / 2], i % 2 == 0 ? columns.x : columns.y);
            }
        }
    }
    release_epilogue_scales(c);
}

/// The same for one fragment: elements 0, 1 have the tensor core's row `m` and columns `n` and n + 1; 2, 3 the
/// lane's second row.
template <Tile tile>
TILEWRIGHT_DEVICE void scale_fragment(const Consumer<tile>& c, Quad& values, int m, int n) {
    const int slot = c.epilogue_scales.stage;
    const Pair columns = load_shared(*reinterpret_cast<const Pair*>(&c.shared.column_scales[slot][n]));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float row = load_shared(c.shared.row_scales[slot][m + i / 2 * fragment_row_step(tile)]);
        values.values[i] = scaled<tile>(values.values[i], row, i % 2 == 0 ? columns.x : columns.y);
    }
}

}  // namespace tilewright::hopper
