#include "plan/loop.h"

#include <algorithm>

#include "hopper/tile/mma_tiling.h"

// All numbers are from one H200, CUDA 13.0, 2026-11-21: persistent synthetic loops on 132 SMs, operands from L2 by TMA
// ("big": 8192x8192x8192), k-blocks of 128, no epilogue. Utilisation u = tensor clocks needed / clocks spent, so that
// the stall is T * (1 / u - 1). tests/plan/loop_test.cpp holds the measured rows against this file.
namespace tilewright::planner {
namespace {

/// Fewer than 128 columns: barrier and wgmma latency show. 128 x n, no promotion: 83.0, 69.3, 50.1 weights a clock for
/// n = 16, 32, 64 leave 133, 108, 71 clocks of stall on top of T = 64, 128, 256; nothing is left at T = 512.
double latency_stall(double tensor) { return std::max(0.0, std::min(150 - 0.3 * tensor, 214 - 0.55 * tensor)); }

/// Promotion with scales of rows, or none, in the loop. 256x128: 85.0 %. The others by this library's kernels, compared
/// with it in one run (8192x8192x8192 and 1024x7168x16384, H200, 2026-11-21): 192x128 1.01 times the time,
/// 128x128 1.08; each group of columns with a separate scale costs 3.5 % of the tensor clocks (256x112 with 7 of
/// them 1.06, in spite of an eighth less to do): with one warpgroup, and between groups of columns, as the model has
/// it.
double promotion_stall(const hopper::Tile& tile, double tensor, const Model& model) {
    // Whole blocks of 128 columns cost nothing: one H200 runs 128x256 as fast as 256x128.
    const int mixed =
        has_block_scales(tile) && columns_per_block_scale(tile) < 128 ? block_scales_per_k_block(tile) - 1 : 0;
    const double groups = model.column_group_stall * mixed;
    if (partials_in_flight(tile) == 2) return (model.two_partials_stall + groups) * tensor;
    if (tile.shape.warpgroups == 1) return (model.one_warpgroup_stall + groups) * tensor;
    if (tile.shape.warpgroups > 2) return (0.19 + groups) * tensor;
    if (rows_per_warpgroup(tile) > hopper::wgmma_m) return (0.177 + groups) * tensor;
    return ((tile.shape.n > 128 ? 0.17 : 0.26) + groups) * tensor;
}

/// Scales of columns: every warp loads all of them in every k-block. This library's kernels take 725, 1,030 and 1,540
/// clocks a k-block in swapped 128x104, 128x136 and 128x208 (one H200, 2026-11-22; the synthetic loops took 0.55).
double column_scale_stall(double tensor) { return 0.82 * tensor; }

/// Scales of rows and of columns (1x128 : 1x128): 128x128 58.1 %, 128x192 55.7 %, 256x128 56.9 %, 192x128 58.2 %.
double row_and_column_scale_stall(double tensor) { return 0.72 * tensor; }

}  // namespace

Loop loop(const hopper::Tile& tile, const Model& model) {
    // 4096 products a clock, so that 128 of k take m * n / 32 clocks.
    const double tensor = tile.shape.m * tile.shape.n / 32.0;
    Loop result{.tensor_clocks = tensor, .stall_clocks = latency_stall(tensor)};
    const bool promoted = promotion_interval(tile) != 0;
    if (promoted && scales_mma_columns(tile)) {
        result.stall_clocks += scales_mma_rows(tile) ? row_and_column_scale_stall(tensor) : column_scale_stall(tensor);
    } else if (promoted) {
        result.stall_clocks += promotion_stall(tile, tensor, model);
    }
    if (tile.swap_ab && tile.shape.n <= 64)
        result.stall_clocks = std::max(result.stall_clocks, model.swapped_block + model.swapped_column * tile.shape.n);
    result.stall_clocks = std::max(result.stall_clocks, model.least_block - tensor);
    // Multicast cost the synthetic loops 2 to 10 points of utilisation (128x192 and 256x128 2 to 3, 128x128 4 to 10).
    if (tile.cluster.size > 1) result.stall_clocks += model.multicast_clocks + model.multicast_stall * tensor;
    // From the clock at which each loop ran under the 700 W limit, 0.6 ms bursts: unpromoted 1.55 GHz at 99 % busy,
    // promoted 1.55 GHz at 84 %, with both scales 1.69 GHz at 58 %; column scales alone: inferred.
    if (promoted)
        result.energy = scales_mma_columns(tile) ? (scales_mma_rows(tile) ? 1.31 : 1.25) : model.promoted_energy;
    return result;
}

}  // namespace tilewright::planner
