// The kernels that ship with the library. The planner chooses among their tiles, so that no call waits for a compiler;
// every other tile is compiled when it is first asked for.
#pragma once

#include <cstddef>
#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::planner {

/// What a build on two cores has minutes for; tiles, quantisers and what packs weights.
inline constexpr std::size_t most_kernels = 432;
inline constexpr std::size_t most_pack_bytes = 32 << 20;

/// All different, e4m3 x e4m3 or x packed weights; the planner's favourites for each mode of scaling.
std::vector<hopper::Tile> pack();

/// The tiles that ship, each once, for the scaling, accumulation and family of this one. Other value formats than e4m3
/// are served by the same tile shapes, compiled on first use.
std::vector<hopper::Tile> shipped_tiles(const hopper::Tile& family);

bool ships(const hopper::Tile& tile);

/// The tiles to choose among for a pair of scales of which no kernel ships (`has_fast_scales`): those of 1x128 :
/// 128x128 with the shapes that serve groups, as one block. Compiled on first use; nothing of them is measured.
std::vector<hopper::Tile> unshipped_tiles(const hopper::Tile& family);

/// The tiles of 1x128 : row for expanded weights, which ship; other calls of this pair have `unshipped_tiles`.
std::vector<hopper::Tile> expanded_tiles(const hopper::Tile& family);

/// Whether a kernel for D of f32 ships, with and without C, and that kernel: with as many stages as fit besides D.
bool has_f32_kernel(const hopper::Tile& tile);
hopper::Tile f32_kernel(hopper::Tile tile);

}  // namespace tilewright::planner
