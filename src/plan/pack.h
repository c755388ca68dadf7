// The kernels that ship with the library, so that their calls never wait for a compiler. Every other tile is compiled
// on first use. plan/shipped_tiles.h lists which kernels serve a call.
#pragma once

#include <cstddef>
#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::planner {

/// Limits of the pack, from the minutes that a build on two cores may take. They cover tiles, quantizers, weight
/// packers and the other kernels of layers.
inline constexpr std::size_t most_kernels = 480;
inline constexpr std::size_t most_pack_bytes = 36'500'000;

/// All different, e4m3 x e4m3 or x packed weights; the planner's favourites for each mode of scaling.
std::vector<hopper::Tile> pack();

/// The fastest tile of many rows, for expanded weights; `a.scaling` as the activations need it.
inline constexpr hopper::Tile expanded_tile{.shape = {.m = 128, .n = 256},
                                            .stages = 3,
                                            .a = {.scaling = hopper::Scaling::block_1x128},
                                            .b = {.scaling = hopper::Scaling::factor}};

/// The same for bf16 activations, with MXFP4 and NVFP4 weights: compiled on first use.
inline constexpr hopper::Tile expanded_bf16_tile{.shape = {.m = 128, .n = 256, .k = 64}, .stages = 3};

/// The same for 1x32 scales, which promote four times as often: for expanded weights, and for operands in shared
/// memory. There a warpgroup has 128 rows, which share the reads of column scales. Compiled on first use.
inline constexpr hopper::Tile expanded_step_tile{.shape = {.m = 128, .n = 128}, .stages = 5};
inline constexpr hopper::Tile step_tile{.shape = {.m = 256, .n = 64}, .stages = 4};

/// With as many stages as fit in shared memory, no more than it has.
hopper::Tile fitted(hopper::Tile tile);

/// Whether a kernel for D of f32 ships, with and without C; and that kernel, with as many stages as fit in addition to
/// D.
bool has_f32_kernel(const hopper::Tile& tile);
hopper::Tile f32_kernel(hopper::Tile tile);

}  // namespace tilewright::planner
