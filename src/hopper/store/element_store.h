// Stores D element by element, with C or a bias, in any strides and formats, if TMA cannot store it.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/work_tile.h"
#include "hopper/store/convert.h"

namespace tilewright::hopper {

/// An element of D from its sum. Kernels for D of bf16 by TMA: alpha 1, no C.
template <Design design>
TILEWRIGHT_DEVICE void store_element(const Arguments& arguments, const WorkTileOf<design>& work, int row, int column,
                                     float sum) {
    const OutputView& d = arguments.output;
    const i64 to = work.batch * d.batch_stride + row * d.row_stride + column * d.column_stride;
    if constexpr (design.output != Output::any)
        return store_global(static_cast<u16*>(d.data) + to, code_of(sum, OutputFormat::bf16));
    const float number = number_of<design>(arguments, work, row, column, sum);
    if (arguments.format == OutputFormat::f32) return store_global(static_cast<float*>(d.data) + to, number);
    store_global(static_cast<u16*>(d.data) + to, code_of(number, arguments.format));
}

/// Stages 16 rows and 32 columns (fewer at the tile's end) as f32, in swizzled rows of 128 bytes.
template <Design design>
TILEWRIGHT_DEVICE void stage_32_bit(const Accumulators<design>& accumulators, u8* to, int half, int column, int lane) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (column + j * 8 >= design.shape.n) break;
        const float* value = fragment<design>(accumulators, half, column + 8 * j);
        const int row = fragment_row(design, lane), chunk = j * 2 + lane % 4 / 2;
        const int swizzle = design.feed == FeedKind::transposed ? row % 8 : row;
        u8* place = to + row * row_bytes + (chunk ^ swizzle) * 16 + lane % 2 * 8;
        store_shared(*reinterpret_cast<Pair*>(place), {value[0], value[1]});
        // Rows that are 8 apart have one swizzle. The swizzles of a pair of rows differ in the lowest bit.
        if constexpr (design.feed == FeedKind::transposed)
            place = to + row * row_bytes + (chunk ^ swizzle ^ 1) * 16 + lane % 2 * 8;
        store_shared(*reinterpret_cast<Pair*>(place + fragment_row_step(design) * row_bytes), {value[2], value[3]});
    }
}

/// Stores any D. The warp's scratch memory holds 16 rows and 32 columns of accumulators at a time, so that adjacent
/// lanes store adjacent columns of D. (Swap-AB: rows of the scratch memory.)
template <Design design>
TILEWRIGHT_DEVICE void store_by_element(Consumer<design>& c, const Accumulators<design>& accumulators,
                                        const WorkTileOf<design>& work) {
    constexpr int halves = design.rows_per_warpgroup / wgmma_m;
    constexpr int columns = store_row_bytes / int(sizeof(float));
    const int lane = lane_index();
    // A lane's first row and only column of D in the scratch memory.
    const int lane_row = design.swap_ab ? lane / warp_rows : 0, lane_column = design.swap_ab ? lane % warp_rows : lane;
    constexpr int rows_at_once = design.swap_ab ? warp_threads / warp_rows : 1;
    u8* scratch = c.shared.d[c.warpgroup] + c.warp * warp_rows * row_bytes;
#pragma unroll
    for (int half = 0; half < halves; ++half) {
        const int first = c.first_row() + half * wgmma_m + c.warp * warp_rows;
#pragma unroll
        for (int begin = 0; begin < design.shape.n; begin += columns) {
            stage_32_bit<design>(accumulators, scratch, half, begin, lane);
            sync_warp();
            const int row_in_tile = design.swap_ab ? begin : first, column_in_tile = design.swap_ab ? first : begin;
            const int column = work.column + column_in_tile + lane_column;
            // Dense: row_end is m, but it would occupy a register during the mainloop.
            const int rows = end_of_rows<design>(work, c.arguments.m) - work.row - row_in_tile;
            const int rows_here = design.swap_ab ? min(columns, design.shape.n - begin) : warp_rows;
            const bool inside = (design.swap_ab || begin + lane < design.shape.n) && column < c.arguments.n;
#pragma unroll 1
            for (int row = lane_row; row < rows_here && row < rows; row += rows_at_once) {
                const int scratch_row = design.swap_ab ? lane_column : row,
                          scratch_column = design.swap_ab ? row : lane_column;
                const u8* place = scratch + scratch_row * row_bytes + (scratch_column / 4 ^ scratch_row % 8) * 16 +
                                  scratch_column % 4 * 4;
                const float sum = load_shared(*reinterpret_cast<const float*>(place));
                if (inside) {
                    store_element<design>(c.arguments, work, work.row + row_in_tile + row, column, sum);
                }
            }
            sync_warp();
        }
    }
}

}  // namespace tilewright::hopper
