// What a launch with packed weights for bf16 is told: boxes of tokens, and what multiplies sums.
#include <gtest/gtest.h>

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

hopper::Tile bf16_tile(hopper::Storage weights) {
    return {.shape = {.m = 256, .n = 32, .warpgroups = 4},
            .swap_ab = true,
            .a = {.storage = hopper::Storage::bf16, .scaling = hopper::Scaling::none},
            .b = {.storage = weights, .scaling = hopper::packed_scaling(weights)},
            .mma = {.promoted = false}};
}

TEST(PackedMaps, TokensOfBf16AreBoxesOf64) {
    const Geometry g = bf16_with_packed(Granularity::block_1x32, 40, 200, 1000);
    const Launch launched = lowered(g, bf16_tile(hopper::Storage::packed_mxfp4_bf16), 132);
    EXPECT_EQ(launched.a.element_bytes, 2);
    EXPECT_TRUE(launched.a.swizzled);
    EXPECT_EQ(launched.a.sizes[0], 1000U);
    EXPECT_EQ(launched.a.strides[0], 2016U);
    EXPECT_EQ(launched.a.box[0], 64U);
    EXPECT_EQ(launched.a.box[1], 32U);
    ASSERT_TRUE(launched.a_last.has_value());
    EXPECT_EQ(launched.a_last->box[1], 8U);
    EXPECT_TRUE(launched.has_packed_weights);
    EXPECT_EQ(launched.arguments.scales_b.data, g.b.packed.rows);
    EXPECT_EQ(launched.arguments.scales_b.row_stride, 2);
}

/// Codes are bytes of a tensor in boxes of 64 x the tile's columns of D; what follows them takes the place of B's
/// scales.
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
    const hopper::Tile tile{.shape = {.m = 256, .n = 32, .warpgroups = 4},
                            .swap_ab = true,
                            .a = {.scaling = hopper::Scaling::block_1x128},
                            .b = {.storage = hopper::Storage::raw_e2m1, .scaling = hopper::Scaling::factor}};
    const Launch launched = lowered(g, tile, 132);
    EXPECT_FALSE(launched.has_packed_weights);
    EXPECT_FALSE(launched.b_scales.has_value());
    EXPECT_EQ(launched.b.base, address(0x10000));
    EXPECT_EQ(launched.b.element_bytes, 1);
    EXPECT_EQ(launched.b.sizes[0], 496U);
    EXPECT_EQ(launched.b.sizes[1], 200U);
    EXPECT_EQ(launched.b.strides[0], 512U);
    EXPECT_EQ(launched.b.box[0], 64U);
    EXPECT_EQ(launched.b.box[1], 256U);
    EXPECT_TRUE(launched.b.swizzled);
    const hopper::PackedTiles tiles = hopper::PackedTiles::from_map(launched.arguments.b_scales);
    EXPECT_EQ(tiles.first, address(0x30000));
    EXPECT_EQ(tiles.row_tiles, 4);
    g.b.packed.raw = false;
    EXPECT_FALSE(planner::serves(g, tile)) << "weights that were packed";
}

TEST(PackedMaps, TheScaleOfATensorIsThatOfAllItsRows) {
    const Geometry g = bf16_with_packed(Granularity::block_1x16, 40, 200, 1000);
    const Launch launched = lowered(g, bf16_tile(hopper::Storage::packed_nvfp4_bf16), 132);
    EXPECT_EQ(launched.arguments.scales_b.data, g.b.packed.tensor_scales);
    EXPECT_EQ(launched.arguments.scales_b.row_stride, 0);
    EXPECT_EQ(launched.arguments.scales_b.batch_stride, 1);
}

}  // namespace
}  // namespace tilewright::launch
