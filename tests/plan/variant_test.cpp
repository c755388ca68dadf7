// Which of a tile's kernels runs a call. Common calls take the one for D of bf16, in the order of A's scales. All
// others take the one for any output.
#include "plan/variant.h"

#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <string_view>

#include "hopper/description/design.h"
#include "kernel_of_recipe.h"
#include "launch/problems.h"
#include "plan/planned_tile.h"
#include "plan/problems.h"
#include "plan/shipped_kernels.h"
#include "plan/tma.h"

namespace tilewright::planner {
namespace {

using test::block_scaled_tile;
using test::transpose_scales;
using tests::of_recipe;

constexpr std::string_view general = "general", fast = "fast", fast_along_k = "fast, k-major scales",
                           fast_f32 = "fast, f32";

std::string_view runs(const Geometry& g, const hopper::Kernel& tile = block_scaled_tile()) {
    return variant_name(variant(g, tile));
}

hopper::Kernel grouped_tile() {
    hopper::Kernel tile = block_scaled_tile();
    tile.groups = hopper::Groups::rows;
    return tile;
}

TEST(Variant, CommonCallsTakeTheFastOne) {
    Geometry common = test::block_scaled(300, 200, 1000);
    transpose_scales(common.a, 304);
    EXPECT_EQ(runs(common), fast);
    Geometry g = common;
    g.a.scale_strides = {.group = 0, .row = 8, .k = 1};
    EXPECT_EQ(runs(g), fast_along_k);
    g.a.recipe.granularity = g.b.recipe.granularity = Granularity::row;
    EXPECT_EQ(runs(g, hopper::Kernel{}), fast) << "no scales in the main loop";
}

TEST(Variant, ScalesThatTmaCannotLoadTakeTheOneForKMajorScales) {
    struct Order {
        const char* what;
        Strides strides;
    };
    for (const Order& order :
         {Order{"23 scales a row", {.row = 23, .k = 1}}, Order{"every second", {.row = 46, .k = 2}},
          Order{"302 rows a column", {.row = 1, .k = 302}}, Order{"one for all", {}}}) {
        Geometry g = test::block_scaled(300, 200, 2880);
        g.a.scale_strides = order.strides;
        EXPECT_EQ(runs(g), fast_along_k) << order.what;
        g.a.recipe.scales = Format::ue8m0;
        EXPECT_EQ(runs(g), general) << order.what;
    }
    const hopper::Kernel both = of_recipe("1x128:1x128");
    Geometry g = test::block_scaled(300, 200, 2880);
    g.b.recipe.granularity = Granularity::block_1x128;
    EXPECT_EQ(runs(g, both), fast_along_k) << "B's along k, too";
    g.b.recipe.scales = Format::ue8m0;
    EXPECT_EQ(runs(g, both), general);
}

TEST(Variant, SwappedTilesAndSlicesOfKCopyWhatTmaCannotLoad) {
    hopper::Kernel split = block_scaled_tile();
    split.cluster = {.k_slices = 2};
    hopper::Kernel swapped = block_scaled_tile();
    swapped.swap_ab = true;
    for (const hopper::Kernel& tile : {split, swapped}) {
        Geometry g = test::block_scaled(300, 200, 1024);
        EXPECT_EQ(runs(g, tile), fast_along_k) << "along k";
        EXPECT_FALSE(loads_scales_by_tma(g, hopper::Design(variant(g, tile))))
            << "neither a slice's scales nor those of columns";
        transpose_scales(g.a, 302);
        EXPECT_EQ(runs(g, tile), fast_along_k) << "302 rows a column";
        g.a.recipe.scales = Format::ue8m0;
        EXPECT_EQ(runs(g, tile), fast) << "by ordinary loads";
        g.a.recipe.scales = Format::f32;
        transpose_scales(g.a, 304);
        EXPECT_EQ(runs(g, tile), fast) << "by TMA";
        g.alpha = 2;
        EXPECT_EQ(runs(g, tile), general);
    }
}

TEST(Variant, GroupsThatBeginAnywhereAreFastInEitherOrder) {
    const hopper::Kernel tile = grouped_tile();
    for (const bool along_m : {false, true}) {
        for (const Grouping grouping : {Grouping::m_grouped_offsets, Grouping::m_grouped_indices}) {
            Geometry g = test::block_scaled(1000, 200, 1024);
            g.grouping.grouping = grouping;
            g.groups = 7;
            if (along_m) transpose_scales(g.a, 1000);
            EXPECT_EQ(runs(g, tile), fast_along_k) << (along_m ? "along m" : "along k");
        }
    }
}

TEST(Variant, RowIndicesInBlocksTakeTheFastOneInBothOrdersOfScales) {
    Geometry g = test::block_scaled(1024, 256, 1024);
    g.groups = 4;
    g.grouping.grouping = Grouping::m_grouped_indices;
    const hopper::Kernel tile = grouped_tile();
    EXPECT_EQ(runs(g, tile), fast_along_k);
    transpose_scales(g.a, 1024);
    EXPECT_EQ(runs(g, tile), fast_along_k) << "a group may begin at any row";
    g.grouping.index_alignment = 128;
    EXPECT_EQ(runs(g, tile), fast);
    g.grouping.index_alignment = 6;
    EXPECT_EQ(runs(g, tile), fast_along_k) << "TMA begins at multiples of four scales";
}

TEST(Variant, EveryOtherCallTakesTheGeneralOne) {
    const Geometry common = test::block_scaled(300, 200, 1000);
    struct Change {
        const char* what;
        void (*make)(Geometry&);
    };
    const Change changes[]{
        {"alpha", [](Geometry& g) { g.alpha = 2; }},
        {"f32", [](Geometry& g) { g.output = Format::f32; }},
        {"C", [](Geometry& g) { g.c = g.d; }},
        {"D that TMA cannot store", [](Geometry& g) { g.d.row_stride = 201; }},
        {"no k", [](Geometry& g) { g.k = 0; }},
        {"scales of one byte", [](Geometry& g) { g.a.recipe.scales = Format::ue8m0; }},
    };
    for (const Change& change : changes) {
        Geometry g = common;
        change.make(g);
        EXPECT_EQ(runs(g), general) << change.what;
        hopper::Kernel asked = variant(common, block_scaled_tile());
        EXPECT_FALSE(can_run(g, asked)) << change.what;
        EXPECT_EQ(runs(g, asked), general) << change.what << ", whatever was asked for";
    }
}

TEST(Variant, OutputOfF32HasAKernelOfItsOwnWithAndWithoutC) {
    hopper::Kernel tile = of_recipe("1x128:1x128", {.shape = {.m = 128, .n = 128}, .stages = 5});
    Geometry common = test::block_scaled(300, 200, 1000);
    common.b.recipe.granularity = Granularity::block_1x128;
    common.output = Format::f32;
    const auto expect = [&](std::string_view variant, const char* what, void (*change)(Geometry&)) {
        Geometry g = common;
        change(g);
        EXPECT_EQ(runs(g, tile), variant) << what;
        EXPECT_EQ(can_run(g, f32_kernel(tile)), variant == fast_f32) << what;
    };
    expect(fast_f32, "no C", [](Geometry&) {});
    expect(fast_f32, "in place", [](Geometry& g) { g.c = g.d; });
    expect(fast_f32, "alpha", [](Geometry& g) { g.alpha = 2; });
    expect(fast_f32, "scales along m", [](Geometry& g) { transpose_scales(g.a, 304); });
    expect(general, "no k", [](Geometry& g) { g.k = 0; });
    expect(general, "D that TMA cannot store", [](Geometry& g) { g.d.row_stride = 201; });
    expect(general, "scales of one byte", [](Geometry& g) { g.a.recipe.scales = Format::ue8m0; });
    expect(general, "one row of C for all", [](Geometry& g) {
        g.c = g.d;
        g.c.row_stride = 0;
    });
    expect(general, "C that TMA cannot load", [](Geometry& g) {
        g.c = g.d;
        g.c.row_stride = 201;
    });
    EXPECT_EQ(variant(common, tile).stages, 6) << "what fits, for D has no separate memory";
    tile.shape.n = 192;
    EXPECT_EQ(runs(common, tile), general) << "no such kernel ships";
}

TEST(Variant, PairsOfBlocksAreFastOrNone) {
    hopper::Kernel pair = block_scaled_tile();
    pair.cluster = {.rows = 2};
    Geometry g = test::block_scaled(512, 512, 512);
    EXPECT_EQ(variant(g, pair).cluster, pair.cluster);
    g.alpha = 2;
    EXPECT_EQ(variant(g, pair).cluster, hopper::Cluster{});
}

TEST(Variant, APlanShowsTheKernelThatRuns) {
    EXPECT_EQ(plan(problem_of(dense(4096, 7168, 2048))).variant, fast_along_k);
    ProblemSizes with_c = dense(4096, 7168, 2048);
    with_c.with_c = true;
    EXPECT_EQ(plan(problem_of(with_c)).variant, general) << "C without an address is C all the same";
    for (const Plan& plan : explain(problem_of(with_c)).legal)
        EXPECT_FALSE(planned_tile(plan).cluster.shares_operand());
    with_c.recipe = both_row_scaled;
    with_c.output = Format::f32;
    const Plan accumulated = plan(problem_of(with_c));
    EXPECT_EQ(accumulated.variant, fast_f32);
    EXPECT_EQ(accumulated.tile, "128x128x128 stages=5") << "the tile that ships, not its kernel's stages";
}

TEST(Variant, ABiasTakesTheGeneralKernel) {
    ProblemSizes sizes = dense(4096, 7168, 2048);
    sizes.with_bias = true;
    EXPECT_EQ(plan(problem_of(sizes)).variant, general);
    sizes.output = Format::f32;
    sizes.recipe = both_row_scaled;
    EXPECT_EQ(plan(problem_of(sizes)).variant, general) << "TMA would load a matrix";
    sizes.m = 1;
    EXPECT_EQ(plan(problem_of(sizes)).variant, general) << "a C of one row, but of bf16";
}

TEST(Variant, ABiasIsReadOnceForEachGroup) {
    ProblemSizes sizes = dense(4096, 7168, 2048);
    const std::int64_t without = plan(problem_of(sizes)).cost.memory_bytes;
    sizes.with_bias = true;
    EXPECT_EQ(plan(problem_of(sizes)).cost.memory_bytes, without + 2 * 7168);
}

TEST(ScalesToCopy, AreThoseThatTmaCouldLoad) {
    ProblemSizes sizes = dense(512, 512, 1024);
    sizes.recipe = both_row_scaled;
    Problem p = problem_of(sizes);  // k-major: fine for a, not for b
    EXPECT_FALSE(scales_to_copy(p).a);
    EXPECT_TRUE(scales_to_copy(p).b);
    p.b.scales.strides = {1, 512};
    EXPECT_FALSE(scales_to_copy(p).b);
    p.a.scales.strides = {9, 1};
    EXPECT_TRUE(scales_to_copy(p).a);
    p.d.format = Format::f32;
    p.a.scales.strides = {8, 1};
    EXPECT_TRUE(scales_to_copy(p).a) << "the general kernel loads no k-major scales by TMA";
    sizes.recipe = block_scaled;
    EXPECT_FALSE(scales_to_copy(problem_of(sizes)).b) << "another recipe";
}

}  // namespace
}  // namespace tilewright::planner
