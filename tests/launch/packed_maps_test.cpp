// What a launch with packed weights for bf16 is told: boxes of tokens, and what multiplies sums.
#include <gtest/gtest.h>

#include "launch/launch.h"
#include "launch/problems.h"

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

TEST(PackedMaps, TheScaleOfATensorIsThatOfAllItsRows) {
    const Geometry g = bf16_with_packed(Granularity::block_1x16, 40, 200, 1000);
    const Launch launched = lowered(g, bf16_tile(hopper::Storage::packed_nvfp4_bf16), 132);
    EXPECT_EQ(launched.arguments.scales_b.data, g.b.packed.tensor_scales);
    EXPECT_EQ(launched.arguments.scales_b.row_stride, 0);
    EXPECT_EQ(launched.arguments.scales_b.batch_stride, 1);
}

}  // namespace
}  // namespace tilewright::launch
