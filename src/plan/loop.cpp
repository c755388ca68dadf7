// The clocks per k-block of each main loop.
//
// - Promoted loops: measured with this library's kernels on one H200, 2026-11-22. The difference in time x SM clock
//   between k = 16384 and 2048 is divided by waves x 112 k-blocks. n was 7168, m 64 to 4096. tests/plan/loop_test.cpp
//   compares the results with this file.
// - Other loops: synthetic loops, measured a day earlier. They were persistent, with operands from L2 by TMA and no
//   epilogue.
#include <algorithm>

#include "plan/model.h"

namespace tilewright::planner {
namespace {

int steps_per_stage(const hopper::Design& tile) { return tile.stage_k / hopper::step_k; }

/// Unpromoted with fewer than 128 columns: the latency of barrier and wgmma shows.
///
/// - 128 x n runs at 83.0, 69.3 and 50.1 weights per clock for n = 16, 32 and 64.
/// - This leaves 133, 108 and 71 clocks of stall on top of T = 64, 128 and 256. Nothing is left at T = 512.
double latency_stall(double tensor) { return std::max(0.0, std::min(150 - 0.3 * tensor, 214 - 0.55 * tensor)); }

/// Promotion with scales of rows, or none, in the loop. The wider the products, the more of it they hide.
double promotion_stall(const hopper::Design& tile, double tensor) {
    const int n = tile.shape.n;
    if (tile.loop == hopper::Loop::two_partials) return 200 - 0.6 * n;
    if (tile.shape.warpgroups == 1) return 0.64 * tensor;
    if (tile.shape.warpgroups > 2) return 240 - 1.5 * n;
    if (tile.subtiles > 1) return 118 + 2.5 * (128 - std::min(128, tile.wgmma_n));
    return 172 - 0.52 * n;
}

/// Each group of columns with a separate 128x128 scale beyond the first. Whole blocks of 128 columns cost nothing.
double column_groups_stall(const hopper::Design& tile) {
    constexpr double clocks = 6;
    const int groups = tile.block_scales_per_k_block;
    return groups > 0 && tile.d_columns / groups < 128 ? clocks * (groups - 1) : 0;
}

/// Scales of columns: every warp loads all of them in every k-block.
double column_scale_stall(const hopper::Design& tile, double tensor) {
    if (tile.shape.warpgroups > 1) return 235 + 0.4 * tile.shape.n;
    return tile.loop == hopper::Loop::two_partials ? 248 - 0.55 * tile.shape.n : 1.35 * tensor;
}

/// Scales of rows and of columns (1x128 : 1x128). Tensor cores are busy for this part of their clocks: 128x128 58.1 %,
/// 128x192 55.7 %, 256x128 56.9 %, 192x128 58.2 %.
double row_and_column_scale_stall(double tensor) { return latency_stall(tensor) + 0.72 * tensor; }

/// Promotion after each 32 k-elements, with operands in shared memory. The larger of two counts:
/// - Clocks of shared memory's port: lines that wgmma and TMA take, and words of scales that lanes read
///   (docs/hopper_lessons.md).
/// - Instructions of a scheduler: 7 per wgmma and 30 per k-block, plus reads and promotion. Counted in SASS, not
///   measured.
///
/// A single warpgroup is assumed to wait for its reads.
double step_clocks(const hopper::Design& tile) {
    constexpr double of_wgmma = 7, of_k_block = 30;
    const double steps = steps_per_stage(tile);
    const double warpgroups = tile.shape.warpgroups, subtiles = tile.subtiles;
    const double row_words = tile.mma_a.scales_of_row > 0 ? tile.rows_per_warpgroup / 32.0 : 0;
    const double column_words = tile.mma_b.scales_of_row > 0 ? tile.shape.n / 4.0 : 0;
    const double lines = warpgroups * subtiles * (hopper::wgmma_m + tile.wgmma_n) + tile.shape.m + tile.shape.n;
    const double port = lines + steps * (row_words + column_words) * hopper::warpgroup_warps * warpgroups;
    const bool multiplies_scales = tile.mma_a.scales_of_row > 0 && tile.mma_b.scales_of_row > 0;
    const double promotion = tile.accumulator_registers * (multiplies_scales ? 2 : 1);
    const double reads = row_words + column_words / 2;
    const double instructions = steps * (promotion + reads + subtiles * of_wgmma) + of_k_block;
    return warpgroups == 1 ? port + instructions : std::max(port, warpgroups * instructions);
}

/// The tensor core's A comes through registers. The first wgmma of 64 rows waits for ldmatrix and 16 permutes unless
/// these run during the previous wgmma. Computed from the latencies of both, not measured. One of two warpgroups hides
/// half of them during the other's products.
double feed_stall(const hopper::Design& tile) {
    constexpr double clocks = 80;
    if (tile.feed == hopper::FeedKind::shared || tile.order.step == StepKind::bf16 ||
        (tile.feed == hopper::FeedKind::transposed && tile.loop == hopper::Loop::filling_next))
        return 0;
    const double loads = tile.rows_per_warpgroup / static_cast<double>(hopper::wgmma_m);
    return loads * clocks / tile.shape.warpgroups;
}

/// Packed weights are decoded on their way to the tensor core. A single warpgroup waits for its own decoding; several
/// hide much of each other's. Fitted to 187 times of 33 shapes of few tokens (up to 2.2 times the best) and 13 of 256
/// and more per group (one H200, 2026-11-25). The fit misses the times by 8 % (root mean square), and its choices among
/// them by 0.6 % in the mean. Among warpgroups with 128 rows, 256x64 and 256x96 were measured. Promotion after each 32
/// k-elements is assumed to add four times as much as its scales did in an earlier loop.
double decode_stall(const hopper::Design& tile) {
    const double n = tile.shape.n, warpgroups = tile.shape.warpgroups;
    if (tile.loop != hopper::Loop::filling_next) {
        constexpr double fixed = 230, each = 55, scales_of_step = 0.7;
        return fixed + (each + (tile.order.chain == hopper::step_k ? steps_per_stage(tile) * scales_of_step * n : 0)) *
                           warpgroups;
    }
    const bool scales = tile.mma_b.scales_of_row > 0;
    if (tile.rows_per_warpgroup > hopper::wgmma_m) return 540 - n + (scales ? 1.1 * n : 0);
    return std::max(0.0, 100 - 0.35 * n) + (85 + (scales ? 0.6 * n : 0)) * warpgroups;
}

/// A warp's instructions for 64 x 128 NVFP4 weights, counted in SASS:
/// - with 1x128 scales of A: 218, 228 and 282 for 16, 32 and twice 32 columns. Each number is promoted; scales of
///   columns are read in pairs;
/// - with 1x32 scales of A, four times: 244 and 284 for 16 and 32 columns.
double promoted_bf16_instructions(const hopper::Design& tile) {
    const bool steps = tile.order.chain == hopper::step_k;
    const double decoding = steps ? 205 : 208, further_wgmmas = steps ? 32 : 31, promotions = steps ? 4 : 1;
    const double n = tile.shape.n;
    return decoding + promotions * (n / 2 + n / 8) + further_wgmmas * (tile.wgmmas_along_n - 1);
}

/// Weights that are packed for bf16. A warp has 173 (MXFP4) or 199 (NVFP4) instructions for 64 x 128 weights, counted
/// in SASS. The SM's schedulers issue one per clock for each warpgroup in turn, other blocks' warpgroups included.
///
/// One H200, 2026-11-24, an earlier order of codes: 1.23 clocks per instruction, and half of the tensor cores' time is
/// hidden.
double bf16_decode_issue(const hopper::Design& tile, double tensor) {
    constexpr double mxfp4 = 173, nvfp4 = 199, clocks = 1.23, exposed = 0.5;
    const double decoded = tile.b.is_nvfp4() ? nvfp4 : mxfp4;
    const double each = tile.order.has(ScaleUse::chains) ? promoted_bf16_instructions(tile) : decoded;
    return std::max(0.0, clocks * each * tile.shape.m / hopper::wgmma_m - exposed * tensor);
}

/// The additional wait of a single warpgroup for shared memory, barriers and its own results. Two hide less of it than
/// half: 128x8 takes 1.08 to 1.16 times as long as 256x8 where both fill the GPU (one H200, 2026-11-29). With one
/// partial accumulator a warpgroup also waits for the last results of each k-block, which is assumed to take as long.
double bf16_decode_stall(const hopper::Design& tile, double tensor) {
    const bool waits_again = tile.order.has(ScaleUse::chains) && tile.loop != hopper::Loop::two_partials;
    const double waits = tile.shape.warpgroups == 2 ? 150 : 180.0 / tile.shape.warpgroups;
    return (waits_again ? 2 : 1) * waits + bf16_decode_issue(tile, tensor);
}

double stall_clocks(const hopper::Design& tile, double tensor) {
    if (tile.order.chain == hopper::step_k && !tile.b.is_packed()) {
        return std::max(steps_per_stage(tile) * latency_stall(tensor), step_clocks(tile) - tensor);
    }
    if (tile.b.is_packed())
        return tile.order.step == StepKind::bf16 ? bf16_decode_stall(tile, tensor) : decode_stall(tile);
    if (tile.order.chain == 0) return latency_stall(tensor);
    if (tile.mma_b.scales_of_row == 0) return promotion_stall(tile, tensor) + column_groups_stall(tile);
    return tile.mma_a.scales_of_row > 0 ? row_and_column_scale_stall(tensor) : column_scale_stall(tile, tensor);
}

}  // namespace

/// One H200, 2026-11-29 (docs/experiments/036-short-packed-tiles.md): tiles of groups whose weights are decoded to e4m3
/// took 2,500 to 5,000 clocks in addition to 6 to 16 k-blocks. In tiles of 28 and more the earlier fit of
/// `decode_stall` leaves no such time. It is assumed to be hidden after the 16th k-block. Not measured with one product
/// and for bf16.
double switch_clocks(const hopper::Design& tile, double k_blocks) {
    constexpr double per_64_rows = 1000, exposing = 16;
    const bool decodes = tile.b.is_packed() && tile.order.step == StepKind::fp8;
    if (!decodes || tile.groups != hopper::Groups::rows) return 0;
    return per_64_rows * tile.shape.m / hopper::wgmma_m * std::min(1.0, exposing / std::max(1.0, k_blocks));
}

Loop loop(const hopper::Design& tile, const Model& model, int warpgroups) {
    const double tensor = tile.tensor_clocks();
    Loop result{.tensor_clocks = tensor, .stall_clocks = std::max(0.0, stall_clocks(tile, tensor)) + feed_stall(tile)};
    if (tile.b.is_packed() && tile.order.step == StepKind::bf16) result.issue_clocks = bf16_decode_issue(tile, tensor);
    // Multicast cost the synthetic loops 2 to 10 points of utilisation (128x192 and 256x128 2 to 3, 128x128 4 to 10).
    if (tile.cluster.size() > 1) result.stall_clocks += model.multicast_clocks + model.multicast_stall * tensor;
    // From the clock of each loop under the 700 W limit, 0.6 ms bursts. Unpromoted: 1.55 GHz at 99 % busy. Promoted:
    // 1.55 GHz at 84 %. With both scales: 1.69 GHz at 58 %. Column scales only: inferred.
    constexpr double unpromoted = -0.13, column_scales = 0.25, both_scales = 0.31;
    result.energy = model.promoted_energy;
    if (tile.order.chain == 0) {
        result.energy += unpromoted;
    } else if (tile.mma_b.scales_of_row > 0 && !tile.b.is_packed()) {
        result.energy += tile.mma_a.scales_of_row > 0 ? both_scales : column_scales;
    }
    if (warpgroups != 0 && warpgroups < tile.shape.warpgroups) {
        result.tensor_clocks *= static_cast<double>(warpgroups) / tile.shape.warpgroups;
        // No other warpgroup multiplies while it promotes.
        if (warpgroups == 1) result.stall_clocks = model.lone_stall * result.tensor_clocks;
    }
    return result;
}

}  // namespace tilewright::planner
