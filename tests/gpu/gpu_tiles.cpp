#include "gpu/gpu_tiles.h"

#include <utility>

#include "plan/pack.h"

namespace tilewright::test {

std::vector<hopper::Tile> gpu_tiles() {
    using hopper::Scaling;
    using hopper::split_k;
    using hopper::Tile;
    std::vector<Tile> tiles = planner::pack();
    for (Tile tile :
         {Tile{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 8, .swap_ab = true},
          Tile{.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 8, .swap_ab = true},
          Tile{.shape = {.m = 128, .n = 64}, .stages = 6, .swap_ab = true},
          Tile{.shape = {.m = 128, .n = 128}, .stages = 5, .swap_ab = true},
          Tile{.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 8, .swap_ab = true, .cluster = split_k(2)},
          Tile{.shape = {.m = 128, .n = 32}, .stages = 6, .swap_ab = true, .cluster = split_k(4)},
          Tile{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 8, .swap_ab = true, .cluster = split_k(8)},
          Tile{.shape = {.m = 128, .n = 128}, .stages = 4, .cluster = split_k(2)}}) {
        for (const auto& [a, b] : {std::pair{Scaling::epilogue, Scaling::epilogue},
                                   std::pair{Scaling::block_1x128, Scaling::block_128x128}}) {
            tile.a.scaling = a;
            tile.b.scaling = b;
            tiles.push_back(tile);
        }
        tile.family = hopper::Family::m_grouped;
        tiles.push_back(tile);
    }
    return tiles;
}

}  // namespace tilewright::test
