// The kernels that ship with the library, so that their calls never wait for a compiler. Every other tile is compiled
// on first use. plan/shipped_tiles.h lists which kernels serve a call.
//
// A kernel ships by this rule:
// - A tile ships in its kernels for one output, D of bf16 or of f32 by TMA, if calls lose time without it. They are
//   calls of users' sizes that choose it, or those of a tuned row. The records of candidates say so for 1x128:128x128,
//   and the planner's model for the rest.
// - Pairs of blocks ship for three shapes, for dense calls only: tuned rows name them, and others gain at most 1 %
//   (docs/experiments/005-block-pairs.md).
// - A general kernel ships if calls that need one lose without it. All such calls together may lose `most_mean_loss` in
//   the mean, and 99 of 100 may lose `most_loss`. The loss is the model's, against a general kernel of each tile
//   (tools/choose_general_kernels). One tile for each number of slices of k has one, so that a call gets the same bits
//   from its general kernel.
// - Every call that a kernel of the pack could serve, except for its output or alpha, has a general kernel.
// - The kernels around products ship for the recipes of common layers, in bf16 with aligned rows
//   (`launch::shipped_other_kernels`).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "hopper/description/kernel.h"

namespace tilewright::planner {

/// Limits of the pack, from the minutes that a build on two cores may take. They cover tiles, quantizers, weight
/// packers and the other kernels of layers.
inline constexpr std::size_t most_kernels = 384;
inline constexpr std::size_t most_pack_bytes = 30'500'000;

/// Not every tile ships its general kernel. Calls may lose these parts of their time by it: in the mean, and in 99 of
/// 100 calls.
inline constexpr double most_mean_loss = 0.03, most_loss = 0.35;

/// All different, e4m3 x e4m3 or x packed weights; the planner's favourites for each mode of scaling.
std::vector<hopper::Kernel> shipped_kernels();

/// The fastest tile of many rows, for expanded weights. For bf16 activations, with MXFP4 and NVFP4 weights, it is
/// compiled on first use.
inline constexpr hopper::Kernel expanded_tile{.shape = {.m = 128, .n = 256}, .stages = 3};

/// The same for 1x32 scales, which promote four times as often: for expanded weights, and for operands in shared
/// memory. There a warpgroup has 128 rows, which share the reads of column scales. Compiled on first use.
inline constexpr hopper::Kernel expanded_step_tile{.shape = {.m = 128, .n = 128}, .stages = 5};
inline constexpr hopper::Kernel step_tile{.shape = {.m = 256, .n = 64}, .stages = 4};

/// With as many stages as fit in shared memory, no more than it has.
hopper::Kernel fitted(hopper::Kernel tile);

/// The tile's kernel for any output. It shares no operand, because pairs of blocks ship only for one output.
constexpr hopper::Kernel general_kernel(hopper::Kernel tile) {
    tile.output = hopper::Output::any;
    tile.scales_along_k = false;
    if (tile.cluster.shares_operand()) tile.cluster = {};
    return tile;
}

/// Whether a kernel for D of f32 ships, with and without C; and that kernel, which shares no operand either. It has as
/// many stages as fit in addition to D.
bool has_f32_kernel(const hopper::Kernel& tile);
hopper::Kernel f32_kernel(hopper::Kernel tile);

}  // namespace tilewright::planner
