// Every tile, chosen by name, over sizes that leave tails in each of its directions.
#include <gtest/gtest.h>

#include "cuda/backend.h"
#include "gpu/gpu_case.h"
#include "gpu/gpu_tiles.h"
#include "gpu/recipes.h"
#include "gpu/tile_recipe.h"
#include "kernel_of_recipe.h"
#include "launch/kernels.h"
#include "plan/choose.h"
#include "tile_layout.h"

namespace tilewright::test {
namespace {

void expect_bits(const hopper::Kernel& tile, check::CaseSpec spec) {
    if (spec.grouping == Grouping::dense) {
        spec.grouping = tile_grouping(tile);
        spec.groups = tile_groups(tile);
    }
    spec.recipe = recipe_of(tile_recipe(tile));
    spec.far_scales = tile_far_scales(tile);
    spec.accumulation = tests::accumulation_of(tile);
    spec.alpha = tile.output == hopper::Output::bf16_by_tma ? 1.0F : 2.0F;
    const GpuCase gpu(tests::in_layout_of(tile, spec), planner::k_splits(tile, spec.k));
    cuda::run(gpu.geometry(), tile, 0, nullptr);
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    EXPECT_EQ(gpu.difference(), "") << launch::describe(tile);
}

/// Calls that a kernel for D of f32 serves.
void expect_f32_bits(const hopper::Kernel& tile) {
    const hopper::Design design = hopper::Design(tile);
    for (const bool with_c : {false, true}) {
        for (const bool in_place : {false, true}) {
            if (in_place && !with_c) continue;
            for (const std::int64_t k : {std::int64_t{16}, std::int64_t{1008}}) {
                expect_bits(tile, {.output = Format::f32,
                                   .m = 17 * design.d_rows + 3,
                                   .n = 13 * design.d_columns + 12,
                                   .k = k,
                                   .with_c = with_c,
                                   .in_place = in_place,
                                   .a_scale_gaps = {.row = k > 128 ? 1 : 0},
                                   .a_scales_transposed = k > 128,
                                   .b_scales_transposed = k > 128});
            }
        }
    }
}

TEST(GpuTiles, EveryTile) {
    const CurrentDevice device;
    for (const hopper::Kernel& tile : gpu_tiles()) {
        if (tile.output == hopper::Output::f32_by_tma) {
            expect_f32_bits(tile);
            continue;
        }
        const hopper::Design design = hopper::Design(tile);
        const std::int64_t rows = design.d_rows, columns = design.d_columns;
        for (const std::int64_t k : {std::int64_t{16}, std::int64_t{128}, std::int64_t{1008}}) {
            expect_bits(tile, {.m = rows, .n = columns, .k = k});
            expect_bits(tile, {.m = rows + 1, .n = columns - 1, .k = k});
            expect_bits(tile, {.output = Format::f32, .m = 3 * rows - 5, .n = 2 * columns + 8, .k = k});
        }
        expect_bits(tile, {.m = 17 * rows + 3,
                           .n = 13 * columns + 9,
                           .k = 400,
                           .a_scales_transposed = true,
                           .b_scales_transposed = true});
        const Grouping separate = tile.groups == hopper::Groups::rows ? Grouping::m_grouped_masked : Grouping::batched;
        expect_bits(tile, {.grouping = design.is_k_grouped() ? tile_grouping(tile) : separate,
                           .m = rows + 9,
                           .n = columns + 9,
                           .k = 272,
                           .groups = 37,
                           .with_c = tile.output == hopper::Output::any});
    }
}

// Small, for compute-sanitizer's racecheck and synccheck.
TEST(GpuTiles, EveryLaneArrives) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row"}) {
        for (const hopper::Groups groups : {hopper::Groups::none, hopper::Groups::rows}) {
            hopper::Kernel tile = tests::of_recipe(recipe, {.stages = 4, .groups = groups});
            tile.debug.every_lane_arrives = true;
            expect_bits(tile, {.m = 300, .n = 264, .k = 784});
            expect_bits(tile, {.output = Format::f32, .m = 300, .n = 261, .k = 784});
        }
    }
}

}  // namespace
}  // namespace tilewright::test
