// The kernels that ship with the library, so that no call waits for a compiler; every other tile is compiled when it is
// first asked for. plan/shipped_tiles.h says which of them serve a call.
#pragma once

#include <cstddef>
#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::planner {

/// What a build on two cores has minutes for; tiles, quantisers and what packs weights.
inline constexpr std::size_t most_kernels = 440;
inline constexpr std::size_t most_pack_bytes = 36'500'000;

/// All different, e4m3 x e4m3 or x packed weights; the planner's favourites for each mode of scaling.
std::vector<hopper::Tile> pack();

/// What takes least time of many rows, for expanded weights; `a.scaling` as the activations have it.
inline constexpr hopper::Tile expanded_tile{.shape = {.m = 128, .n = 256},
                                            .stages = 3,
                                            .a = {.scaling = hopper::Scaling::block_1x128},
                                            .b = {.scaling = hopper::Scaling::factor}};

/// The same next to bf16, MXFP4's and NVFP4's: compiled on first use.
inline constexpr hopper::Tile expanded_bf16_tile{.shape = {.m = 128, .n = 256, .k = 64}, .stages = 3};

/// The same of 1x32 scales, which promote four times as often: expanded weights, and operands in shared memory, where
/// rows of 128 a warpgroup share what is read of the scales of columns. Compiled on first use.
inline constexpr hopper::Tile expanded_step_tile{.shape = {.m = 128, .n = 128}, .stages = 5};
inline constexpr hopper::Tile step_tile{.shape = {.m = 256, .n = 64}, .stages = 4};

/// With as many stages as fit in shared memory, no more than it has.
hopper::Tile fitted(hopper::Tile tile);

/// Whether a kernel for D of f32 ships, with and without C, and that kernel: with as many stages as fit besides D.
bool has_f32_kernel(const hopper::Tile& tile);
hopper::Tile f32_kernel(hopper::Tile tile);

}  // namespace tilewright::planner
