// The wide rows of a warpgroup. The loops that multiply wide rows separately (wide_rows.h) or window by window
// (windows.h) use them. The epilogue scales have arrived.
#pragma once

#include "hopper/block/ring.h"

namespace tilewright::hopper {

template <Design design>
struct WideRows {
    static constexpr int halves = design.rows_per_warpgroup / wgmma_m;

    TILEWRIGHT_DEVICE explicit WideRows(const Consumer<design>& c) {
        const int* const words = c.shared.wide.items[c.epilogue_scales.stage] + c.first_row() / 32;
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            const u32 first = u32(load_shared(words[2 * half])), second = u32(load_shared(words[2 * half + 1]));
            in_half[half] = (first | second) != 0;
            any = any || in_half[half];
            const u32 of_warp = (c.warp < 2 ? first : second) >> c.warp % 2 * warp_rows;
            of_lane[half] = (of_warp >> c.lane / 4 & 1) | (of_warp >> (c.lane / 4 + 8) & 1) << 1;
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const u32 rows = of_warp >> 8 * row & 0xFF;
                in_rows[half][row] = rows != 0;
                all_rows[half][row] = rows == 0xFF;
            }
        }
    }

    /// Whether any of the warp's rows is wide.
    TILEWRIGHT_DEVICE bool in_warp(int half) const { return in_rows[half][0] || in_rows[half][1]; }

    /// Whether element `i` of a lane's share of a subtile belongs to a wide row.
    TILEWRIGHT_DEVICE bool has(int half, int i) const { return (of_lane[half] >> i % 4 / 2 & 1) != 0; }

    bool any = false;
    bool in_half[halves];     // of the warpgroup's 64 rows, the same in all of its warps
    bool in_rows[halves][2];  // of the warp's 16 rows: the lanes' first rows, and their second rows
    bool all_rows[halves][2];
    u32 of_lane[halves];  // bits 0 and 1: the lane's first and second row
};

}  // namespace tilewright::hopper
