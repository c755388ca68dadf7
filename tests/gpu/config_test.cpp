// Every tile of the pack, on any number of SMs, gives the same bits for the same problem.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <tuple>

#include "cuda/runtime.h"
#include "gpu/gpu_case.h"
#include "gpu/gpu_tiles.h"
#include "gpu/recipes.h"
#include "gpu/tile_recipe.h"
#include "hopper/description/design.h"
#include "launch/kernels.h"
#include "plan/choose.h"
#include "tile_layout.h"

namespace tilewright::test {
namespace {

struct Shape {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

constexpr std::array shapes{Shape{1, 8, 16},      Shape{3, 4096, 512},   Shape{16, 2112, 1152},  Shape{64, 64, 4096},
                            Shape{65, 129, 144},  Shape{100, 1000, 400}, Shape{128, 2112, 768},  Shape{129, 576, 1152},
                            Shape{192, 384, 272}, Shape{255, 513, 112},  Shape{256, 256, 2048},  Shape{257, 72, 240},
                            Shape{300, 700, 528}, Shape{384, 512, 3072}, Shape{500, 1500, 64},   Shape{512, 136, 128},
                            Shape{640, 640, 640}, Shape{1000, 300, 256}, Shape{1024, 1024, 512}, Shape{2049, 257, 400}};
constexpr std::array sm_limits{1, 2, 3, 77, 131, 132};

class GpuConfigurations : public testing::TestWithParam<Shape> {};

TEST_P(GpuConfigurations, EveryTileOnAnyNumberOfSms) {
    const CurrentDevice device;
    const Shape shape = GetParam();
    std::map<std::tuple<std::string, Accumulation, bool, Grouping, int, Layout>, std::unique_ptr<GpuCase>> cases;
    for (const hopper::Kernel& tile : gpu_tiles()) {
        if (tile.output == hopper::Output::f32_by_tma && shape.n % 4 != 0) continue;  // D that TMA cannot store
        const Accumulation accumulation = tests::accumulation_of(tile);
        const bool f32 = tile.output == hopper::Output::f32_by_tma;
        const hopper::Design design = hopper::Design(tile);
        std::unique_ptr<GpuCase>& gpu = cases[{
            tile_recipe(tile) + std::string(design.feed == hopper::FeedKind::windowed ? ", wide" : ""), accumulation,
            f32, tile_grouping(tile), design.cluster.k_slices, tests::in_layout_of(tile, {}).layout}];
        if (!gpu) {
            gpu = std::make_unique<GpuCase>(tests::in_layout_of(tile, {.grouping = tile_grouping(tile),
                                                                       .recipe = recipe_of(tile_recipe(tile)),
                                                                       .output = f32 ? Format::f32 : Format::bf16,
                                                                       .m = shape.m,
                                                                       .n = shape.n,
                                                                       .k = shape.k,
                                                                       .groups = tile_groups(tile),
                                                                       .with_c = f32,
                                                                       .accumulation = accumulation,
                                                                       .far_scales = tile_far_scales(tile)}),
                                            planner::k_splits(tile, shape.k));
        }
        for (const int sms : sm_limits) {
            gpu->reset();
            cuda::runtime().run(gpu->geometry(), tile, {.sm_limit = sms});
            cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
            ASSERT_EQ(gpu->difference(), "") << launch::describe(tile) << " on " << sms << " SMs";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuConfigurations, testing::ValuesIn(shapes));

}  // namespace
}  // namespace tilewright::test
