// The epilogue's first phase: all accumulators of a tile are multiplied by the epilogue scales of their rows and
// columns.
#pragma once

#include "formats/codec.h"
#include "hopper/store/convert.h"

namespace tilewright::hopper {

template <Design design>
TILEWRIGHT_DEVICE void release_epilogue_scales(Consumer<design>& c) {
    sync_warp();
    warp_arrives<design>(c.shared.epilogue_scales_empty[c.epilogue_scales.stage], c.lane);
    c.epilogue_scales.advance();
}

/// For a tile in which the warpgroup has no rows.
template <Design design>
TILEWRIGHT_DEVICE void skip_epilogue_scales(Consumer<design>& c) {
    if constexpr (design.has_epilogue_scales) {
        wait_epilogue_scales<design>(c);
        release_epilogue_scales(c);
    }
}

/// Whether a row of the tile of the tensor core was multiplied in windows. The tokens' scales were then applied in the
/// mainloop.
template <Design design>
TILEWRIGHT_DEVICE bool has_windows(const Consumer<design>& c, int row) {
    if constexpr (design.feed == FeedKind::windowed) {
        return (u32(load_shared(c.shared.wide.items[c.epilogue_scales.stage][row / 32])) >> row % 32 & 1) != 0;
    } else {
        return false;
    }
}

/// The sum times the epilogue scales of its row and column, in the canonical order. `deferring`: scales in the mainloop
/// left powers of two, which are 1 otherwise. `wide`: `has_windows`.
template <Design design, bool deferring>
TILEWRIGHT_DEVICE float scaled(float sum, float row, float column, bool wide) {
    constexpr bool defers_a = design.order.defers_a(), defers_b = design.order.defers_b();
    float of_a = design.swap_ab ? column : row, of_b = design.swap_ab ? row : column;
    // The factors of wide rows have a minus sign in memory (formats/packed_layout.h).
    if constexpr (design.feed == FeedKind::windowed)
        of_b = __builtin_bit_cast(float, __builtin_bit_cast(u32, of_b) & 0x7FFF'FFFF);
    if constexpr (nvfp4_factor<design>() != 1) sum *= formats::nvfp4_tensor_factor();
    if constexpr (design.order.folded == Folded::b && design.order.step != StepKind::bf16) {
        if (!wide) {  // the factor is smaller than the row's scale by this amount
            constexpr float top = formats::power_of_two(6);
            of_b *= top;
            sum *= 1 / top;
        }
    }
    if constexpr (design.order.defers && !deferring) return sum * (defers_a ? of_b : of_a);
    if constexpr (defers_a) of_a = formats::inverse_power(of_a);
    if constexpr (defers_b) of_b = formats::inverse_power(of_b);
    if (wide) of_a = 1;
    if constexpr (design.order.folded == Folded::b || design.order.defers || nvfp4_factor<design>() != 1)
        return formats::multiply_by_both(sum, of_a, of_b);
    return sum * (of_a * of_b);
}

/// Scales all accumulators; `deferring` as in `scaled`.
template <Design design, bool deferring>
TILEWRIGHT_DEVICE void scale_all(const Consumer<design>& c, Accumulators<design>& accumulators) {
    constexpr int halves = design.rows_per_warpgroup / wgmma_m;
    const int slot = c.epilogue_scales.stage;
    const int lane = lane_index(), first = c.first_row() + c.warp * warp_rows + fragment_row(design, lane);
    constexpr int step = fragment_row_step(design);
    float rows[halves][2];
    u32 wide = 0;  // a bit for each of these rows
#pragma unroll
    for (int i = 0; i < 2 * halves; ++i) {
        rows[i / 2][i % 2] = load_shared(c.shared.row_scales[slot][first + i / 2 * wgmma_m + i % 2 * step]);
        if (has_windows<design>(c, first + i / 2 * wgmma_m + i % 2 * step)) wide |= 1U << i;
    }
#pragma unroll
    for (int column = 0; column < design.shape.n; column += 8) {
        const float* pair = &c.shared.column_scales[slot][column + lane % 4 * 2];
        const Pair columns = load_shared(*reinterpret_cast<const Pair*>(pair));
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            float* value = fragment<design>(accumulators, half, column);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const bool is_wide = design.feed == FeedKind::windowed && (wide >> (2 * half + i / 2) & 1) != 0;
                value[i] =
                    scaled<design, deferring>(value[i], rows[half][i / 2], i % 2 == 0 ? columns.x : columns.y, is_wide);
            }
        }
    }
}

template <Design design>
TILEWRIGHT_DEVICE void scale_accumulators(Consumer<design>& c, Accumulators<design>& accumulators) {
    wait_epilogue_scales<design>(c);
    if (design.order.defers && c.defers) {
        scale_all<design, true>(c, accumulators);
    } else {
        scale_all<design, false>(c, accumulators);
    }
    release_epilogue_scales(c);
}

/// The same for one fragment. Elements 0 and 1 are in the tensor core's row `m`, columns `n` and n + 1. Elements 2 and
/// 3 are in the lane's second row.
template <Design design>
TILEWRIGHT_DEVICE void scale_fragment(const Consumer<design>& c, Quad& values, int m, int n) {
    const int slot = c.epilogue_scales.stage;
    const Pair columns = load_shared(*reinterpret_cast<const Pair*>(&c.shared.column_scales[slot][n]));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int in_tile = m + i / 2 * fragment_row_step(design);
        const float row = load_shared(c.shared.row_scales[slot][in_tile]);
        const float column = i % 2 == 0 ? columns.x : columns.y;
        const bool wide = design.feed == FeedKind::windowed && has_windows<design>(c, in_tile);
        values.values[i] = design.order.defers && c.defers ? scaled<design, true>(values.values[i], row, column, wide)
                                                           : scaled<design, false>(values.values[i], row, column, wide);
    }
}

}  // namespace tilewright::hopper
