// The tiles that tests run on a GPU: those of the pack, and more that swap operands or split k.
#pragma once

#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::test {

std::vector<hopper::Tile> gpu_tiles();

}  // namespace tilewright::test
