// Tile: what the planner and a kernel both derive from it.
#include "hopper/tile/tile.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "plan/candidates.h"
#include "plan/legality.h"
#include "plan/problems.h"
#include "plan/work.h"
#include "problem/canonical_order.h"

namespace tilewright::hopper {
namespace {

template <Tile tile>
constexpr int shared_bytes_of = tile.shared_bytes();

// The tile as a template argument, and the sizes of a layout worked out by hand: 3 stages of 256 + 128 rows of 128
// bytes and 256 row scales; D in 16 bits; 4 pieces of 32 block scales; alignment; two barriers for each of 3 stages, 6
// slots and 2 warpgroups; whole KiB.
constexpr Tile main_tile{
    .m = 256, .n = 128, .stages = 3, .a_scaling = Scaling::row_128, .b_scaling = Scaling::block_128};
static_assert(shared_bytes_of<main_tile> ==
              (3 * (384 * 128 + 1024) + 256 * 128 * 2 + 4 * 32 * 4 + 512 + 2 * 11 * 8 + 1023) / 1024 * 1024);

TEST(Tile, SwapExchangesTheOperands) {
    Tile tile{.m = 128, .n = 32, .swap_ab = true, .a_scaling = Scaling::row_128, .b_scaling = Scaling::block_128};
    EXPECT_EQ(tile.rows(), 32);
    EXPECT_EQ(tile.columns(), 128);
    EXPECT_EQ(tile.first().scaling, Scaling::block_128);
    EXPECT_TRUE(tile.scales_columns());
    EXPECT_FALSE(tile.scales_rows());
    tile.swap_ab = false;
    EXPECT_TRUE(tile.scales_rows());
    EXPECT_FALSE(tile.scales_columns());
}

// Measured limits of setmaxnreg: a launch gives 640 threads 96 registers each, so four warpgroups get at most 112;
// 384 threads get 168, and two get 232 with 40 left for the loading one.
TEST(Tile, RegistersAddUpToTheFile) {
    const auto tile = [](int warpgroups) { return Tile{.m = 64 * warpgroups, .n = 64, .warpgroups = warpgroups}; };
    EXPECT_EQ(tile(2).launch_registers(), 168);
    EXPECT_EQ(tile(2).consumer_registers(), 232);
    EXPECT_EQ(tile(3).consumer_registers(), 160);
    EXPECT_EQ(tile(4).launch_registers(), 96);
    EXPECT_EQ(tile(4).consumer_registers(), 112);
    for (int warpgroups = 1; warpgroups <= 4; ++warpgroups) {
        const Tile t = tile(warpgroups);
        const int used = warpgroup_threads * (t.producer_registers() + warpgroups * t.consumer_registers());
        EXPECT_LE(used, t.launch_registers() * t.threads());
        EXPECT_LE(t.launch_registers() * t.threads(), registers_per_sm);
    }
}

TEST(Tile, EveryWarpHasARole) {
    const Tile plain{};
    EXPECT_EQ(plain.role(0), Role::load);
    EXPECT_EQ(plain.role(1), Role::block_scale);
    EXPECT_EQ(plain.role(3), Role::store);
    EXPECT_EQ(plain.full_arrivals(false), 1);
    for (int warp = producer_warps; warp < plain.threads() / warp_threads; ++warp) {
        EXPECT_EQ(plain.role(warp), Role::multiply);
    }
    EXPECT_EQ(main_tile.role(1), Role::block_scale);
    EXPECT_EQ(main_tile.role(2), Role::row_scale);
    EXPECT_EQ(main_tile.role(3), Role::store);
    EXPECT_EQ(main_tile.full_arrivals(false), 2);
    EXPECT_EQ(main_tile.full_arrivals(true), 1);
    Tile pair = main_tile;
    pair.cluster = 2;
    pair.multicast = Multicast::b;
    EXPECT_EQ(pair.empty_arrivals(), 2 * 8);
    EXPECT_EQ(pair.fetched_rows(pair.side_b()), 64);
    EXPECT_EQ(pair.fetched_rows(pair.side_a()), 256);
}

TEST(Tile, EveryCandidateLoadsWholeStages) {
    planner::Work work = planner::describe(planner::problem_of(planner::dense(4096, 7168, 2048)));
    for (const Tile& tile : planner::candidates(planner::family_tile(work))) {
        int bytes = 0;
        for (const Side& side : {tile.first(), tile.second()}) {
            const int boxes = (tile.fetched_rows(side) + box_rows_limit - 1) / box_rows_limit;
            bytes += boxes * tile.bytes_per_load(side) * (side.shared ? tile.cluster : 1);
        }
        ASSERT_EQ(bytes, tile.bytes_per_stage());
        ASSERT_LE(tile.bytes_per_stage(), tile.value_bytes_per_stage());
    }
}

// The order of additions is stated once, in problem/canonical_order.h; device code cannot include it.
TEST(Tile, ChainsAreThoseOfTheCanonicalOrder) {
    for (const Recipe& recipe : all_recipes()) {
        for (Accumulation accumulation : {Accumulation::promoted, Accumulation::unpromoted}) {
            const auto order = canonical_order(recipe, accumulation);
            if (!order) continue;  // f16, f32: the CPU's `fast` arithmetic only
            planner::Work work;
            work.recipe = recipe;
            work.accumulation = accumulation;
            const Tile tile = planner::family_tile(work);
            EXPECT_EQ(tile.k_step(), step_products(order->step)) << name(recipe);
            EXPECT_EQ(tile.chain(), order->chain) << name(recipe) << " " << name(accumulation);
        }
    }
}

}  // namespace
}  // namespace tilewright::hopper
