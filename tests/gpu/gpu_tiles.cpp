#include "gpu/gpu_tiles.h"

#include <utility>

#include "plan/pack.h"

namespace tilewright::test {

std::vector<hopper::Tile> gpu_tiles() {
    using hopper::Scaling;
    using hopper::Tile;
    std::vector<Tile> tiles = planner::pack();
    for (Tile tile :
         {Tile{.m = 64, .n = 8, .stages = 8, .swap_ab = true, .warpgroups = 1},
          Tile{.m = 64, .n = 32, .stages = 8, .swap_ab = true, .warpgroups = 1},
          Tile{.m = 128, .n = 64, .stages = 6, .swap_ab = true}, Tile{.m = 128, .n = 128, .stages = 5, .swap_ab = true},
          Tile{.m = 64, .n = 64, .stages = 8, .swap_ab = true, .split_k = 2, .warpgroups = 1},
          Tile{.m = 128, .n = 32, .stages = 6, .swap_ab = true, .split_k = 4},
          Tile{.m = 64, .n = 16, .stages = 8, .swap_ab = true, .split_k = 8, .warpgroups = 1},
          Tile{.m = 128, .n = 128, .stages = 4, .split_k = 2}}) {
        tile.cluster = tile.split_k;
        for (const auto& [a, b] :
             {std::pair{Scaling::after, Scaling::after}, std::pair{Scaling::row_128, Scaling::block_128}}) {
            tile.a_scaling = a;
            tile.b_scaling = b;
            tiles.push_back(tile);
        }
        tile.family = hopper::Family::m_grouped;
        tiles.push_back(tile);
    }
    return tiles;
}

}  // namespace tilewright::test
