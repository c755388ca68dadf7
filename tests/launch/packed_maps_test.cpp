// The arguments of a launch with packed weights for bf16: boxes of tokens, and the factors of sums.
#include <gtest/gtest.h>

#include "kernel_of_recipe.h"
#include "launch/launch.h"
#include "launch/problems.h"
#include "plan/variant.h"

namespace tilewright::launch {
namespace {

using test::address;
using test::block_scaled;
using test::lowered;

/// Packed weights for bf16, and what a launch is told of them.
Geometry bf16_with_packed(Granularity of_b, std::int64_t m, std::int64_t n, std::int64_t k) {
    Geometry g = block_scaled(m, n, k);
    g.a = {.recipe = {Format::bf16}, .values = address(0x10000), .value_strides = {.row = k + 8, .k = 1}};
    g.b = {.recipe = {Format::e2m1, of_b}, .packed = {.given = true, .rows = address(0x20000)}};
    g.b.packed.tiles = address(0x30000);
    g.b.packed.row_tiles = (n + 63) / 64;
    g.b.packed.k_blocks = (k + 127) / 128;
    if (of_b != Granularity::block_1x16) return g;
    g.b.packed.tensor_scales = address(0x40000);
    g.b.packed.tensor_scale_stride = 1;
    return g;
}

constexpr hopper::Kernel of_four_warpgroups{.shape = {.m = 256, .n = 32, .warpgroups = 4}, .swap_ab = true};

TEST(PackedMaps, TokensOfBf16AreBoxesOf64) {
    const Geometry g = bf16_with_packed(Granularity::block_1x32, 40, 200, 1000);
    const Launch launched = lowered(g, tests::of_recipe("bf16:mxfp4", of_four_warpgroups), 132);
    EXPECT_EQ(launched.a.element_bytes, 2);
    EXPECT_TRUE(launched.a.swizzled);
    EXPECT_EQ(launched.a.sizes[0], 1000U);
    EXPECT_EQ(launched.a.strides[0], 2016U);
    EXPECT_EQ(launched.a.box[0], 64U);
    EXPECT_EQ(launched.a.box[1], 32U);
    ASSERT_TRUE(launched.a_last.has_value());
    EXPECT_EQ(launched.a_last->box[1], 8U);
    EXPECT_FALSE(launched.b.has_value());
    EXPECT_EQ(launched.arguments.packed.first, g.b.packed.tiles);
    EXPECT_EQ(launched.arguments.scales_b.data, g.b.packed.rows);
    EXPECT_EQ(launched.arguments.scales_b.row_stride, 2);
}

/// Codes are bytes of a tensor in boxes of 64 x the tile's columns of D. Packed tiles have what follows them.
TEST(PackedMaps, RawCodesAreBoxesOfBytes) {
    Geometry g = block_scaled(40, 200, 992);
    g.b = {.recipe = {Format::e2m1, Granularity::block_1x32},
           .values = address(0x10000),
           .value_strides = {.group = 1 << 20, .row = 1024, .k = 1},
           .packed = {.given = true, .rows = address(0x20000), .tiles = address(0x30000)}};
    g.b.packed.row_tiles = 4;
    g.b.packed.k_blocks = 8;
    g.b.packed.windows = 4;
    g.b.packed.tile_bytes = hopper::raw_tile_bytes;
    g.b.packed.raw = true;
    hopper::Kernel tile = tests::of_recipe("1x128:mxfp4", of_four_warpgroups);
    tile.wide_rows = true;
    tile.b.form = hopper::Form::rows_and_tiles;
    const Launch launched = lowered(g, tile, 132);
    ASSERT_TRUE(launched.b.has_value());
    EXPECT_FALSE(launched.b_scales.has_value());
    EXPECT_EQ(launched.b->base, address(0x10000));
    EXPECT_EQ(launched.b->element_bytes, 1);
    EXPECT_EQ(launched.b->sizes[0], 496U);
    EXPECT_EQ(launched.b->sizes[1], 200U);
    EXPECT_EQ(launched.b->strides[0], 512U);
    EXPECT_EQ(launched.b->box[0], 64U);
    EXPECT_EQ(launched.b->box[1], 256U);
    EXPECT_TRUE(launched.b->swizzled);
    const hopper::PackedTiles& tiles = launched.arguments.packed;
    EXPECT_EQ(tiles.first, address(0x30000));
    EXPECT_EQ(tiles.row_tiles, 4);
    g.b.packed.raw = false;
    EXPECT_FALSE(planner::can_run(g, tile)) << "weights that were packed";
}

TEST(PackedMaps, TheScaleOfATensorIsThatOfAllItsRows) {
    const Geometry g = bf16_with_packed(Granularity::block_1x16, 40, 200, 1000);
    const Launch launched = lowered(g, tests::of_recipe("bf16:nvfp4", of_four_warpgroups), 132);
    EXPECT_EQ(launched.arguments.scales_b.data, g.b.packed.tensor_scales);
    EXPECT_EQ(launched.arguments.scales_b.row_stride, 0);
    EXPECT_EQ(launched.arguments.scales_b.batch_stride, 1);
}

}  // namespace
}  // namespace tilewright::launch
