#include "gpu/gpu_tiles.h"

#include "kernel_of_recipe.h"
#include "plan/shipped_kernels.h"

namespace tilewright::test {

std::vector<hopper::Kernel> gpu_tiles() {
    using hopper::Kernel;
    std::vector<Kernel> tiles = planner::shipped_kernels();
    for (const Kernel& tile :
         {Kernel{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 8, .swap_ab = true},
          Kernel{.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 8, .swap_ab = true},
          Kernel{.shape = {.m = 128, .n = 64}, .stages = 6, .swap_ab = true},
          Kernel{.shape = {.m = 128, .n = 128}, .stages = 5, .swap_ab = true},
          Kernel{
              .shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 8, .swap_ab = true, .cluster = {.k_slices = 2}},
          Kernel{.shape = {.m = 128, .n = 32}, .stages = 6, .swap_ab = true, .cluster = {.k_slices = 4}},
          Kernel{
              .shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 8, .swap_ab = true, .cluster = {.k_slices = 8}},
          Kernel{.shape = {.m = 128, .n = 128}, .stages = 4, .cluster = {.k_slices = 2}}}) {
        tiles.push_back(tests::of_recipe("row:row", tile));
        tiles.push_back(tests::of_recipe("1x128:128x128", tile));
        tiles.push_back(tiles.back());
        tiles.back().groups = hopper::Groups::rows;
    }
    return tiles;
}

}  // namespace tilewright::test
