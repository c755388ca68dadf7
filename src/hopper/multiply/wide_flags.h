// The wide rows of a warpgroup, read from the signs of their factors. The loops that multiply wide rows separately
// (wide_rows.h) or window by window (windows.h) use them. The epilogue scales have arrived.
#pragma once

#include "hopper/block/ring.h"

namespace tilewright::hopper {

template <Design design>
struct WideRows {
    static constexpr int halves = design.rows_per_warpgroup / wgmma_m;

    TILEWRIGHT_DEVICE explicit WideRows(const Consumer<design>& c) {
        const float* const factors = c.shared.row_scales[c.epilogue_scales.stage] + c.first_row();
        const auto is_wide = [&](int row) { return __builtin_bit_cast(u32, load_shared(factors[row])) >> 31; };
        const int own = c.warp * warp_rows + c.lane / 4;
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            const int first = half * wgmma_m;
            const u32 wide = is_wide(first + c.lane) | is_wide(first + warp_threads + c.lane);
            in_half[half] = ballot(wide != 0) != 0;
            any = any || in_half[half];
            of_lane[half] = is_wide(first + own) | is_wide(first + own + warp_rows / 2) << 1;
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const u32 lanes = ballot((of_lane[half] >> row & 1) != 0);
                in_rows[half][row] = lanes != 0;
                all_rows[half][row] = lanes == ~0U;
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
