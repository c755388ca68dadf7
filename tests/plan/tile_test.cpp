// Tile: what the planner and a kernel both derive from it.
#include "hopper/tile/mma_tiling.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "plan/candidates.h"
#include "plan/legality.h"
#include "plan/problems.h"
#include "plan/workload.h"
#include "problem/canonical_order.h"
#include "problem/hopper_rules.h"

namespace tilewright::hopper {
namespace {

template <Tile tile>
constexpr int shared_bytes_of = shared_bytes(tile);

// The tile as a template argument, and the sizes of a layout worked out by hand: 3 stages of 256 + 128 rows of 128
// bytes and 256 row scales; D in 16 bits; one unused scale for each stage; 4 chunks of 32 block scales; unused epilogue
// scales; two barriers for each of 3 stages, 6 places of scales, 2 warpgroups and work tiles, of which one is unused;
// whole KiB.
constexpr Tile main_tile{.shape = {.m = 256, .n = 128},
                         .stages = 3,
                         .a = {.scaling = Scaling::block_1x128},
                         .b = {.scaling = Scaling::block_128x128}};
static_assert(shared_bytes_of<main_tile> ==
              (3 * (384 * 128 + 1024) + 256 * 128 * 2 + 128 + 4 * 32 * 4 + 16 + 2 * 12 * 8 + 32 + 2 * 8 + 1023) / 1024 *
                  1024);

TEST(Tile, SwapExchangesTheOperands) {
    Tile tile{.shape = {.m = 128, .n = 32},
              .swap_ab = true,
              .a = {.scaling = Scaling::block_1x128},
              .b = {.scaling = Scaling::block_128x128}};
    EXPECT_EQ(d_rows(tile), 32);
    EXPECT_EQ(d_columns(tile), 128);
    EXPECT_EQ(mma_a(tile).spec.scaling, Scaling::block_128x128);
    EXPECT_TRUE(scales_mma_columns(tile));
    EXPECT_FALSE(scales_mma_rows(tile));
    tile.swap_ab = false;
    EXPECT_TRUE(scales_mma_rows(tile));
    EXPECT_FALSE(scales_mma_columns(tile));
}

// Measured limits of setmaxnreg: a launch gives 640 threads 96 registers each, so four warpgroups get at most 112;
// 384 threads get 168, and two get 232 with 40 left for the loading one.
TEST(Tile, RegistersAddUpToTheFile) {
    const auto tile = [](int warpgroups) {
        return Tile{.shape = {.m = 64 * warpgroups, .n = 64, .warpgroups = warpgroups}};
    };
    EXPECT_EQ(launch_registers(tile(2)), 168);
    EXPECT_EQ(consumer_registers(tile(2)), 232);
    EXPECT_EQ(consumer_registers(tile(3)), 160);
    EXPECT_EQ(launch_registers(tile(4)), 96);
    EXPECT_EQ(consumer_registers(tile(4)), 112);
    for (int warpgroups = 1; warpgroups <= 4; ++warpgroups) {
        const Tile t = tile(warpgroups);
        const int used = warpgroup_threads * (producer_registers(t) + warpgroups * consumer_registers(t));
        EXPECT_LE(used, launch_registers(t) * block_threads(t));
        EXPECT_LE(launch_registers(t) * block_threads(t), registers_per_sm);
    }
}

TEST(Tile, EveryWarpHasARole) {
    const Tile usual{};
    EXPECT_EQ(role_of(usual, 0), Role::load);
    EXPECT_EQ(role_of(usual, 1), Role::block_and_epilogue_scales);
    EXPECT_EQ(role_of(usual, 3), Role::store);
    EXPECT_EQ(full_arrivals(usual, false), 1);
    for (int warp = producer_warps; warp < block_threads(usual) / warp_threads; ++warp) {
        EXPECT_EQ(role_of(usual, warp), Role::multiply);
    }
    EXPECT_EQ(role_of(main_tile, 1), Role::block_and_epilogue_scales);
    EXPECT_EQ(role_of(main_tile, 2), Role::row_scales);
    EXPECT_EQ(role_of(main_tile, 3), Role::store);
    EXPECT_EQ(full_arrivals(main_tile, false), 2);
    EXPECT_EQ(full_arrivals(main_tile, true), 1);
    Tile pair = main_tile;
    pair.cluster = share_b(2);
    EXPECT_EQ(empty_arrivals(pair), 2 * 8);
    EXPECT_EQ(loaded_rows(pair, operand_b(pair)), 64);
    EXPECT_EQ(loaded_rows(pair, operand_a(pair)), 256);
}

TEST(Tile, EveryCandidateLoadsWholeStages) {
    planner::Workload work = planner::describe(problem_of(planner::dense(4096, 7168, 2048)));
    for (const Tile& tile : planner::candidates(planner::family_tile(work))) {
        int bytes = 0;
        for (const OperandTile& side : {mma_a(tile), mma_b(tile)}) {
            const int boxes = ceil_div(loaded_rows(tile, side), box_rows_limit);
            bytes += boxes * box_rows(tile, side) * row_bytes * (side.shared ? tile.cluster.size : 1);
        }
        ASSERT_EQ(bytes, value_bytes_per_stage(tile));
    }
}

// The order of additions is stated once, in problem/canonical_order.h; device code cannot include it.
TEST(Tile, PromotionIntervalsAreThoseOfTheCanonicalOrder) {
    int compared = 0;
    for (const Recipe& recipe : all_recipes()) {
        for (Accumulation accumulation : {Accumulation::promoted, Accumulation::unpromoted}) {
            const auto order = canonical_order(recipe, accumulation);
            if (!order) continue;  // f16, f32: the CPU's `fast` arithmetic only
            const bool packed = is_mxfp4(recipe.b) || is_nvfp4(recipe.b);
            const WeightKind weights = packed ? WeightKind::packed : WeightKind::ordinary;
            if (!hopper_obstacles({.recipe = recipe, .weights = weights}).empty()) continue;  // no kernel
            if (recipe.a.values == Format::e2m1) continue;  // decoded before: another recipe's kernel
            if (packed && accumulation == Accumulation::unpromoted) continue;  // validation refuses it
            planner::Workload work;
            work.geometry.b.packed.given = packed;
            work.recipe = recipe;
            if (is_nvfp4(recipe.b)) work.recipe.a.values = Format::bf16;  // as which fp8 is decoded before
            work.accumulation = accumulation;
            const Tile tile = planner::family_tile(work);
            EXPECT_EQ(step_products(order->step), wgmma_k_bytes / element_bytes(tile.a.storage)) << name(recipe);
            EXPECT_EQ(promotion_interval(tile), order->chain) << name(recipe) << " " << name(accumulation);
            ++compared;
        }
    }
    EXPECT_GE(compared, 26);
}

}  // namespace
}  // namespace tilewright::hopper
