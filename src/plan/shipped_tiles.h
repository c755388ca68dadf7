// The candidate tiles of a call: the shapes of the tiles in plan/shipped_kernels.h that serve its class of kernels, and
// those that `explain` judges.
#pragma once

#include <vector>

#include "hopper/description/kernel.h"

namespace tilewright::planner {

/// The tiles that ship, each once, in the class of a kernel without a shape. Other value formats than e4m3
/// are served by the same tile shapes, compiled on first use.
std::vector<hopper::Kernel> shipped_tiles(const hopper::Kernel& shapeless);

bool ships(const hopper::Kernel& tile);

/// The tiles of this class whose kernels for any output ship. Empty if no kernel of the class ships, such as those of
/// e5m2.
std::vector<hopper::Kernel> general_tiles(const hopper::Kernel& shapeless);

/// Whether calls that need a kernel for any output may take this tile: it ships, or no kernel of its class does.
bool serves_general_calls(const hopper::Kernel& tile);

/// The candidate tiles for a pair of scales without shipped kernels in such groups. They are the tiles of
/// 1x128 : 128x128 with the shapes that serve groups, as one block. Compiled on first use. Times are in
/// docs/experiments/037-pairs-without-shipped-kernels.md.
std::vector<hopper::Kernel> unshipped_tiles(const hopper::Kernel& shapeless);

/// The tiles for expanded weights. Tiles for 1x32 scales do not ship.
std::vector<hopper::Kernel> expanded_tiles(const hopper::Kernel& shapeless);

/// All that the planner considers, in this class: a fixed list, legal or not, so that `explain` can say why one is not.
std::vector<hopper::Kernel> candidates(const hopper::Kernel& shapeless);

}  // namespace tilewright::planner
