// A thousand launches of every tile of the pack, with another kernel beside on a second stream: always the same bits.
#include <gtest/gtest.h>

#include "cuda/backend.h"
#include "gpu/gpu_case.h"
#include "gpu/recipes.h"
#include "gpu/tile_recipe.h"
#include "launch/pack.h"
#include "launch/tile_code.h"

namespace tilewright::test {
namespace {

TEST(GpuRepeat, AThousandLaunchesOfEveryTile) {
    const CurrentDevice device;
    const Stream stream;
    const Stream beside;
    const GpuCase noise({.recipe = recipe_of("tensor:tensor"), .m = 900, .n = 1100, .k = 2048});
    for (const hopper::Tile& tile : launch::pack()) {
        const GpuCase gpu({.grouping = tile_grouping(tile),
                           .recipe = recipe_of(tile_recipe(tile)),
                           .m = 388,
                           .n = 520,
                           .k = 784,
                           .groups = tile_groups(tile),
                           .alpha = tile.plain ? 1.0F : 2.0F,
                           .accumulation = tile.promoted ? Accumulation::promoted : Accumulation::unpromoted,
                           .a_scales_transposed = true,
                           .b_scales_transposed = true});
        const Geometry geometry = gpu.geometry();
        for (int launch = 0; launch < 1000; ++launch) {
            gpu.reset();
            if (launch % 3 == 0) cuda::run(noise.geometry(), hopper::Tile{}, 0, beside.handle());
            cuda::run(geometry, tile, 0, stream.handle());
            stream.wait();
            const std::string difference = gpu.difference();
            ASSERT_EQ(difference, "") << launch::describe(tile) << ", launch " << launch;
        }
        beside.wait();
    }
}

}  // namespace
}  // namespace tilewright::test
