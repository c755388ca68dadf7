// Tensor maps: what TMA is told, and what is left to ordinary loads and stores.
#include "launch/launch.h"

#include <gtest/gtest.h>

#include "hopper/description/design.h"
#include "launch/problems.h"

namespace tilewright::launch {
namespace {

using test::address;
using test::block_scaled;
using test::block_scaled_tile;
using test::lowered;
using test::transpose_scales;

TEST(Maps, ValuesAreSwizzledRowsOfK) {
    Geometry g = block_scaled(300, 200, 1008);
    g.a.value_strides.row = 1024;
    const Launch launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_EQ(launched.a.base, g.a.values);
    EXPECT_EQ(launched.a.element_bytes, 1);
    EXPECT_TRUE(launched.a.swizzled);
    EXPECT_EQ(launched.a.sizes[0], 1008U);
    EXPECT_EQ(launched.a.sizes[1], 300U);
    EXPECT_EQ(launched.a.sizes[2], 1U);
    EXPECT_EQ(launched.a.strides[0], 1024U);
    EXPECT_EQ(launched.a.box[0], 128U);
    EXPECT_EQ(launched.a.box[1], 128U);
    EXPECT_EQ(launched.a.box[2], 1U);
    EXPECT_EQ(launched.b->sizes[1], 200U);
}

TEST(Maps, ValuesAlongTheRowsAreRowsOfThem) {
    hopper::Kernel tile = block_scaled_tile();
    tile.shape.m = 256;
    tile.stages = 3;
    tile.swap_ab = true;
    tile.b.form = hopper::Form::columns;
    Geometry g = block_scaled(300, 200, 1008);
    g.b.value_strides = {.row = 1, .k = 208};
    const Launch launched = lowered(g, tile, 132);
    EXPECT_TRUE(launched.b->swizzled);
    EXPECT_EQ(launched.b->sizes[0], 200U);
    EXPECT_EQ(launched.b->sizes[1], 1008U);
    EXPECT_EQ(launched.b->strides[0], 208U);
    EXPECT_EQ(launched.b->box[0], 128U);
    EXPECT_EQ(launched.b->box[1], 128U);
    EXPECT_EQ(launched.a.sizes[0], 1008U);
}

TEST(Maps, OfGroupsOfKAreWrittenByTheKernel) {
    hopper::Kernel tile = block_scaled_tile();
    tile.groups = hopper::Groups::k_anywhere;
    Geometry g = block_scaled(300, 200, 1001);
    g.groups = 3;
    g.grouping.grouping = Grouping::k_grouped_flat;
    g.grouping.sizes = row_major(static_cast<void*>(nullptr), Format::i32, Dims{3});
    g.a.flat = g.b.flat = g.a.scales_restart_per_group = g.b.scales_restart_per_group = true;
    g.a.scale_columns = 11;
    g.b.scale_columns = 10;
    const Launch launched = lowered(g, tile, 132);
    EXPECT_FALSE(launched.a_last.has_value());
    for (const hopper::TensorMapDescription& map : {launched.a, *launched.b}) {  // no map has a pitch of 1001
        EXPECT_EQ(map.base, nullptr);
        EXPECT_EQ(map.strides[0] % 16, 0U);
        EXPECT_EQ(map.box[1], 128U);
    }
    EXPECT_EQ(launched.a.sizes[1], 300U);
    EXPECT_EQ(launched.arguments.sizes.kind, hopper::SizeKind::counts);
    const hopper::GroupValues& values = launched.arguments.groups_of_k;
    EXPECT_EQ(values.a.values, g.a.values);
    EXPECT_EQ(values.b.values, g.b.values);
    EXPECT_EQ(values.columns, 10) << "the fewer of both sides";
    EXPECT_TRUE(values.a.flat && values.b.flat);
}

TEST(Maps, COfF32IsLoadedInTheBoxesThatDIsStoredIn) {
    const hopper::Kernel tile = tests::of_recipe("1x128:1x128");
    Geometry g = block_scaled(300, 200, 1000);
    g.b.recipe.granularity = Granularity::block_1x128;
    g.output = Format::f32;
    EXPECT_FALSE(lowered(g, tile, 132).c.has_value());
    g.c = {.given = true, .data = address(0x60000), .row_stride = 240, .column_stride = 1};
    const Launch launched = lowered(g, tile, 132);
    ASSERT_TRUE(launched.c.has_value());
    const hopper::TensorMapDescription& map = *launched.c;
    EXPECT_EQ(map.base, g.c.data);
    EXPECT_EQ(map.strides[0], 960U);
    EXPECT_TRUE(map.swizzled);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(map.box[i], launched.d->box[i]);
        EXPECT_EQ(map.sizes[i], launched.d->sizes[i]);
    }
    EXPECT_EQ(map.box[0] * map.box[1] * 4, 8192U);
}

TEST(Maps, EachBlockOfAClusterFetchesItsShare) {
    const hopper::Kernel tile{.shape = {.m = 256}, .cluster = {.rows = 2}};
    Geometry g = block_scaled(512, 512, 512);
    const Launch launched = lowered(g, tile, 132);
    EXPECT_EQ(launched.cluster, 2);
    EXPECT_EQ(launched.a.box[1], 256U);
    EXPECT_EQ(launched.b->box[1], 64U);
    g.alpha = 2;
    const Launch uncommon = lowered(g, tile, 132);
    EXPECT_EQ(uncommon.cluster, 1) << "pairs ship for common calls alone";
    EXPECT_EQ(uncommon.b->box[1], 128U);
}

TEST(Maps, TheLastTileOfRowsLoadsThoseThatExist) {
    for (const auto& [m, rows] : {std::pair{3U, 3U}, {127U, 127U}, {129U, 1U}, {777U, 9U}}) {
        const Launch launched = lowered(block_scaled(m, 512, 512), block_scaled_tile(), 132);
        ASSERT_TRUE(launched.a_last.has_value()) << m;
        EXPECT_EQ(launched.a_last->box[1], rows);
        EXPECT_EQ(launched.a_last->sizes[1], m);
        ASSERT_TRUE(launched.a_scales_last.has_value()) << m;
        EXPECT_EQ(launched.a_scales_last->box[1], rows);
        EXPECT_EQ(launched.a.box[1], 128U) << m;
        EXPECT_EQ(launched.b->box[1], 128U) << m;
    }
    EXPECT_FALSE(lowered(block_scaled(128, 512, 512), block_scaled_tile(), 132).a_last.has_value());
    EXPECT_FALSE(lowered(block_scaled(512, 512, 512), block_scaled_tile(), 132).a_scales_last.has_value());
    Geometry by_column = block_scaled(300, 512, 512);
    transpose_scales(by_column.a, 300);
    EXPECT_FALSE(lowered(by_column, block_scaled_tile(), 132).a_scales_last.has_value()) << "one row to TMA";
}

TEST(Maps, BlocksThatShareALoadEqualPartsOfTheLastTile) {
    hopper::Kernel tile{.shape = {.m = 256}, .stages = 3, .cluster = {.columns = 2}};
    for (const auto& [m, rows] : {std::pair{1U, 8U}, {256U + 16, 8U}, {256U + 17, 16U}, {256U + 239, 120U}}) {
        Geometry g = block_scaled(m, 512, 512);
        g.a.recipe.granularity = g.b.recipe.granularity = Granularity::row;
        const Launch launched = lowered(g, tile, 132);
        ASSERT_TRUE(launched.a_last.has_value()) << m;
        EXPECT_EQ(launched.a_last->box[1], rows) << m;
        EXPECT_EQ(launched.a.box[1], 128U) << m;
    }
    Geometry g = block_scaled(241, 512, 512);
    g.a.recipe.granularity = g.b.recipe.granularity = Granularity::row;
    EXPECT_FALSE(lowered(g, tile, 132).a_last.has_value()) << "in whole swizzle patterns, all rows of the tile";
}

TEST(Maps, ABatchIsTheLastDimension) {
    Geometry g = block_scaled(64, 64, 256);
    g.grouping.grouping = Grouping::batched;
    g.groups = 3;
    g.a.value_strides.group = 64 * 256;
    g.b.value_strides.group = 70 * 256;
    const Launch launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_EQ(launched.a.sizes[2], 3U);
    EXPECT_EQ(launched.a.strides[1], 64U * 256);
    EXPECT_EQ(launched.b->strides[1], 70U * 256);
}

TEST(Maps, StridesOfOneIndexAreMadeLegal) {
    Geometry g = block_scaled(1, 1, 100);
    g.a.value_strides.row = 3;
    const Launch launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_EQ(launched.a.strides[0] % 16, 0U);
    EXPECT_GT(launched.a.strides[0], 0U);
    EXPECT_GT(launched.a.strides[1], 0U);
}

TEST(Maps, WithoutKTheMapsHaveNoMemory) {
    Geometry g = block_scaled(64, 64, 0);
    g.a.value_strides.row = 1;  // as torch has it for [200, 0]
    g.d.data = address(0x5000A);
    ASSERT_NE(g.a.values, nullptr);
    const Launch launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_EQ(launched.a.base, nullptr);
    EXPECT_EQ(launched.b->base, nullptr);
    EXPECT_EQ(launched.a.sizes[0], 1U);
    EXPECT_EQ(launched.a.strides[0] % 16, 0U);
    EXPECT_FALSE(launched.d.has_value());
    EXPECT_EQ(launched.blocks, 1);
}

TEST(Maps, MMajorScalesAreLoadedByTma) {
    Geometry g = block_scaled(300, 200, 1000);
    transpose_scales(g.a, 304);
    const Launch launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_TRUE(launched.arguments.scales_by_tma);
    ASSERT_TRUE(launched.a_scales.has_value());
    EXPECT_FALSE(launched.b_scales.has_value());
    EXPECT_EQ(launched.a_scales->element_bytes, 4);
    EXPECT_FALSE(launched.a_scales->swizzled);
    EXPECT_EQ(launched.a_scales->sizes[0], 7U * 304 + 300) << "to the last scale, and not beyond";
    EXPECT_EQ(launched.a_scales->sizes[1], 1U);
    EXPECT_EQ(launched.a_scales->box[0], 128U);
    EXPECT_EQ(launched.a_scales->box[1], 1U);
}

TEST(Maps, KMajorScalesAreLoadedByTmaInFastKernels) {
    Geometry g = block_scaled(300, 200, 1000);
    const Launch launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_TRUE(launched.arguments.scales_by_tma);
    ASSERT_TRUE(launched.a_scales.has_value());
    EXPECT_EQ(launched.a_scales->sizes[0], 8U);
    EXPECT_EQ(launched.a_scales->sizes[1], 300U);
    EXPECT_EQ(launched.a_scales->strides[0], 8U * 4);
    EXPECT_EQ(launched.a_scales->box[0], 4U);
    EXPECT_EQ(launched.a_scales->box[1], 128U);
    g.alpha = 2;
    EXPECT_FALSE(lowered(g, block_scaled_tile(), 132).arguments.scales_by_tma);
    g = block_scaled(300, 200, 900 + 128);
    EXPECT_FALSE(lowered(g, block_scaled_tile(), 132).arguments.scales_by_tma) << "9 scales a row";
}

TEST(Maps, OtherScalesAreLoaded) {
    const auto by_tma = [](const Geometry& g) { return lowered(g, block_scaled_tile(), 132).arguments.scales_by_tma; };
    Geometry g = block_scaled(300, 200, 1000);
    transpose_scales(g.a, 302);
    EXPECT_FALSE(by_tma(g)) << "a pitch of 302 * 4 bytes";
    transpose_scales(g.a, 304);
    g.a.scales = address(0x20004);
    EXPECT_FALSE(by_tma(g)) << "an address of 4 modulo 16";
    g.a.scales = address(0x20000);
    g.a.recipe.scales = Format::ue8m0;
    EXPECT_FALSE(by_tma(g)) << "scales of one byte";
    g = block_scaled(300, 200, 1000);
    transpose_scales(g.a, std::int64_t{1} << 29);
    EXPECT_FALSE(by_tma(g)) << "places beyond 2^31";
    transpose_scales(g.a, std::int64_t{1} << 28);
    EXPECT_TRUE(by_tma(g));
}

TEST(Maps, ScalesOfBothOperandsAreLoadedByTmaOrNeither) {
    const hopper::Kernel tile = tests::of_recipe("1x128:1x128");
    Geometry g = block_scaled(300, 200, 1000);
    g.b.recipe.granularity = Granularity::block_1x128;
    transpose_scales(g.a, 304);
    Launch launched = lowered(g, tile, 132);
    EXPECT_FALSE(launched.arguments.scales_by_tma);
    EXPECT_FALSE(launched.a_scales.has_value());
    transpose_scales(g.b, 200);
    launched = lowered(g, tile, 132);
    EXPECT_TRUE(launched.arguments.scales_by_tma);
    ASSERT_TRUE(launched.b_scales.has_value());
    EXPECT_EQ(launched.b_scales->sizes[0], 8U * 200);
}

TEST(Maps, AlignedOutputsAreStoredByTma) {
    Geometry g = block_scaled(300, 200, 1000);
    Launch launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_TRUE(launched.arguments.stored_by_tma);
    ASSERT_TRUE(launched.d.has_value());
    EXPECT_EQ(launched.d->element_bytes, 2);
    EXPECT_EQ(launched.d->sizes[0], 200U);
    EXPECT_EQ(launched.d->sizes[1], 300U);
    EXPECT_EQ(launched.d->strides[0], 400U);
    EXPECT_EQ(launched.d->box[0], 64U);
    EXPECT_EQ(launched.d->box[1], static_cast<hopper::u32>(hopper::Design(block_scaled_tile()).store_rows()));
    EXPECT_TRUE(launched.d->swizzled);
    g.output = Format::f32;
    launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_EQ(launched.d->box[0], 32U);
}

TEST(Maps, OtherOutputsAreStoredByThreads) {
    const auto by_tma = [](const Geometry& g, const hopper::Kernel& tile = block_scaled_tile()) {
        return lowered(g, tile, 132).arguments.stored_by_tma;
    };
    const Geometry good = block_scaled(300, 200, 1000);
    ASSERT_TRUE(by_tma(good));
    Geometry g = good;
    g.c = g.d;
    EXPECT_FALSE(by_tma(g)) << "with C";
    g = good;
    g.d.row_stride = 204;
    EXPECT_FALSE(by_tma(g)) << "rows 408 bytes apart";
    g = good;
    g.d.data = address(0x50008);
    EXPECT_FALSE(by_tma(g)) << "an address of 8 modulo 16";
    g = good;
    g.d.column_stride = 2;
    EXPECT_FALSE(by_tma(g)) << "columns apart";
    hopper::Kernel tile = block_scaled_tile();
    tile.shape.n = 96;
    EXPECT_TRUE(by_tma(good, tile)) << "two stores of 48 columns";
    tile.shape.n = 72;
    EXPECT_FALSE(by_tma(good, tile)) << "no multiple of 16 columns";
    tile.shape.n = 128;
    g = good;
    g.output = Format::f32;
    EXPECT_TRUE(by_tma(g, tile)) << "staged in two parts";
    tile.shape.n = 80;
    EXPECT_FALSE(by_tma(g, tile)) << "no multiple of 32 columns of four bytes";
}

}  // namespace
}  // namespace tilewright::launch
