// A thousand launches of every tile, with other kernels on other streams at the same time: always the same bits.
#include <gtest/gtest.h>

#include <atomic>

#include "cuda/backend.h"
#include "gpu/gpu_case.h"
#include "gpu/gpu_tiles.h"
#include "gpu/recipes.h"
#include "gpu/tile_recipe.h"
#include "launch/launch.h"
#include "launch/tile_code.h"
#include "plan/k_splits.h"
#include "plan/variant.h"
#include "tile_layout.h"

namespace tilewright::test {
namespace {

constexpr int launches = 1000;
constexpr int depth = 912;         // 8 k-blocks: a pitch of scales that TMA can take in either order
constexpr int depth_copied = 848;  // 7: along k they are copied

/// What differs, and in which launch; empty if nothing ever does.
std::string repeat(const hopper::Tile& tile, int k, const GpuCase& noise) {
    const Stream stream;
    const Stream other;
    const GpuCase gpu(tests::in_layout_of(tile, {.grouping = tile_grouping(tile),
                                                 .recipe = recipe_of(tile_recipe(tile)),
                                                 .output = stores_f32(tile) ? Format::f32 : Format::bf16,
                                                 .m = 388,
                                                 .n = 520,
                                                 .k = k,
                                                 .groups = tile_groups(tile),
                                                 .with_c = stores_f32(tile),
                                                 .alpha = is_fast(tile) ? 1.0F : 2.0F,
                                                 .accumulation = tests::accumulation_of(tile),
                                                 .a_scales_transposed = !has_k_major_scales(tile),
                                                 .b_scales_transposed = true,
                                                 .far_scales = tile_far_scales(tile)}),
                      planner::k_splits(tile, k));
    const Geometry geometry = gpu.geometry();
    if (planner::variant(geometry, tile) != tile) return launch::describe(tile) + ": another kernel would run";
    for (int launch = 0; launch < launches; ++launch) {
        gpu.poison_output(stream.handle());
        if (launch % 3 == 0) cuda::run(noise.geometry(), hopper::Tile{}, 0, other.handle());
        cuda::run(geometry, tile, 0, stream.handle());
        stream.wait();
        if (gpu.output_is_right()) continue;
        return launch::describe(tile) + ", launch " + std::to_string(launch) + ": " + gpu.difference();
    }
    other.wait();
    return gpu.difference();  // what must not be written, too
}

TEST(GpuRepeat, AThousandLaunchesOfEveryTile) {
    const CurrentDevice device;
    const std::vector<hopper::Tile> tiles = gpu_tiles();
    std::atomic<int> failures = 0;
    // In parallel, each on its own streams: every launch runs with others.
#pragma omp parallel
    {
        const CurrentDevice of_thread;
        const GpuCase noise({.recipe = recipe_of("tensor:tensor"), .m = 900, .n = 1100, .k = 2048});
#pragma omp for schedule(dynamic)
        for (std::size_t i = 0; i < tiles.size(); ++i) {
            std::string difference = repeat(tiles[i], depth, noise);
            if (copies_row_scales(tiles[i])) difference += repeat(tiles[i], depth_copied, noise);
            if (difference.empty()) continue;
#pragma omp critical
            EXPECT_EQ(difference, "") << ++failures;
        }
    }
}

}  // namespace
}  // namespace tilewright::test
