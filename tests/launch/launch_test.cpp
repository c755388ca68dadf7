// Arguments and grids: the kernel's inputs other than tensor maps.
#include "launch/launch.h"

#include <gtest/gtest.h>

#include <limits>

#include "hopper/description/design.h"
#include "launch/problems.h"

namespace tilewright::launch {
namespace {

using test::block_scaled;
using test::block_scaled_tile;
using test::lowered;

TEST(Launch, CarriesSizesStridesAndScales) {
    Geometry g = block_scaled(300, 200, 1000);
    g.alpha = 2.5F;
    g.output = Format::f16;
    const Launch launched = lowered(g, block_scaled_tile(), 132);
    const hopper::Arguments& arguments = launched.arguments;
    EXPECT_EQ(arguments.m, 300);
    EXPECT_EQ(arguments.n, 200);
    EXPECT_EQ(arguments.k, 1000);
    EXPECT_EQ(arguments.alpha, 2.5F);
    EXPECT_EQ(arguments.scheduler.tiles, 3 * 2);
    EXPECT_EQ(arguments.scheduler.raster.value, 2) << "no more than there are rows of tiles before the last";
    EXPECT_EQ(arguments.scheduler.last_row, 2);
    EXPECT_EQ(arguments.format, hopper::OutputFormat::f16);
    EXPECT_EQ(arguments.output.data, g.d.data);
    EXPECT_EQ(arguments.output.row_stride, 200);
    EXPECT_EQ(arguments.addend.data, nullptr);
    EXPECT_EQ(arguments.report, nullptr);
    EXPECT_EQ(arguments.scales_a.rows, 300);
    EXPECT_EQ(arguments.scales_a.k_blocks, 8);
    EXPECT_EQ(arguments.scales_b.rows, 2);
    EXPECT_EQ(arguments.scales_b.row_stride, 8);
    EXPECT_EQ(launched.threads, hopper::Design(block_scaled_tile()).threads);
    EXPECT_EQ(launched.shared_bytes, hopper::Design(block_scaled_tile()).shared_bytes);
}

TEST(Launch, ABiasIsAnAddendOfItsOwnFormat) {
    Geometry g = block_scaled(300, 200, 1000);
    g.c = g.d;
    EXPECT_EQ(lowered(g, block_scaled_tile(), 132).arguments.addend_format, hopper::OutputFormat::bf16);
    g.c.row_stride = 0;
    g.bias = Format::f32;
    const hopper::Arguments arguments = lowered(g, block_scaled_tile(), 132).arguments;
    EXPECT_EQ(arguments.addend_format, hopper::OutputFormat::f32);
    EXPECT_EQ(arguments.addend.row_stride, 0);
    EXPECT_EQ(arguments.format, hopper::OutputFormat::bf16);
}

TEST(Launch, WithoutKAlphaLeavesAddendsAsTheyAre) {
    Geometry g = block_scaled(300, 200, 0);
    g.alpha = 2.5F;
    EXPECT_EQ(lowered(g, block_scaled_tile(), 132).arguments.alpha, 1);
    g.c = g.d;
    EXPECT_EQ(lowered(g, block_scaled_tile(), 132).arguments.alpha, -1) << "-1 * 0 + -0 is -0";
}

TEST(Launch, ScaleColumnsLimitTheBlocksOfK) {
    Geometry g = block_scaled(64, 64, 1024);
    g.a.scale_columns = 5;
    g.b.scale_columns = 12;
    const Launch launched = lowered(g, block_scaled_tile(), 132);
    EXPECT_EQ(launched.arguments.scales_a.k_blocks, 5);
    EXPECT_EQ(launched.arguments.scales_b.k_blocks, 8);
}

TEST(Launch, OneScaleIsFoundFromEveryRow) {
    Geometry g = block_scaled(300, 200, 256);
    g.a.recipe = {Format::e4m3, Granularity::tensor, Format::f32};
    g.a.scale_strides = {};
    g.b.recipe = {Format::e4m3, Granularity::row, Format::ue8m0};
    g.b.scale_strides = {.group = 0, .row = 3, .k = 0};
    const Launch launched = lowered(g, hopper::Kernel{}, 132);
    EXPECT_EQ(launched.arguments.scales_a.rows, 300);
    EXPECT_EQ(launched.arguments.scales_a.row_stride, 0);
    EXPECT_EQ(launched.arguments.scales_a.k_blocks, 1);
    EXPECT_EQ(launched.arguments.scales_b.rows, 200);
    EXPECT_EQ(launched.arguments.scales_b.row_stride, 3);
    EXPECT_EQ(launched.arguments.scales_b.format, hopper::ScaleFormat::ue8m0);
    EXPECT_FALSE(launched.arguments.scales_by_tma);
}

TEST(Launch, WithoutKNoScaleMatters) {
    Geometry g = block_scaled(300, 200, 0);
    for (const Granularity granularity : {Granularity::tensor, Granularity::row}) {
        g.a.recipe.granularity = g.b.recipe.granularity = granularity;
        const Launch launched = lowered(g, hopper::Kernel{}, 132);
        EXPECT_EQ(launched.arguments.scales_a.data, nullptr) << "a null view scales by 1";
        EXPECT_EQ(launched.arguments.scales_b.data, nullptr);
        EXPECT_GT(launched.blocks, 0) << "D is C, or zeros";
    }
}

TEST(Launch, DOfF32IsAccumulatedAlongItsRowsWhereBStaysInL2) {
    Geometry g = block_scaled(4096, 4096, 4096);
    hopper::Kernel kernel = block_scaled_tile();
    kernel.output = hopper::Output::f32_by_tma;
    const hopper::Design tile = hopper::Design(kernel);
    EXPECT_EQ(raster_width(g, tile), 8) << "without C";
    g.c = g.d;
    EXPECT_EQ(raster_width(g, tile), 2) << "17 MB";
    g.k = 7168;
    EXPECT_EQ(raster_width(g, tile), 8) << "29 MB";
    g.grouping.grouping = Grouping::k_grouped_flat;
    g.groups = 2;
    EXPECT_EQ(raster_width(g, tile), 2) << "15 MB of each group";
    EXPECT_EQ(raster_width(g, hopper::Design(block_scaled_tile())), 8);
}

TEST(Launch, AVariantThatContradictsTheCallIsRefused) {
    Geometry g = block_scaled(300, 200, 1000);
    hopper::Kernel tile = planner::variant(g, block_scaled_tile());
    EXPECT_NO_THROW((void)planner::given_kernel(g, tile));
    EXPECT_NO_THROW((void)planner::given_kernel(g, block_scaled_tile())) << "the general kernel serves every call";
    g.alpha = 2;
    EXPECT_THROW((void)planner::given_kernel(g, tile), std::logic_error);
}

TEST(Launch, ABlockForEachTileUpToTheSms) {
    const hopper::Design tile = hopper::Design(block_scaled_tile());
    EXPECT_EQ(blocks(block_scaled(1, 1, 128), tile, 132), 1);
    EXPECT_EQ(blocks(block_scaled(129, 257, 128), tile, 132), 6);
    EXPECT_EQ(blocks(block_scaled(8192, 8192, 128), tile, 132), 132);
    Geometry batch = block_scaled(128, 128, 128);
    batch.groups = 7;
    EXPECT_EQ(blocks(batch, tile, 132), 7);
    EXPECT_EQ(blocks(block_scaled(0, 128, 128), tile, 132), 0);
    EXPECT_EQ(blocks(block_scaled(128, 0, 128), tile, 132), 0);
    batch.groups = 0;
    EXPECT_EQ(blocks(batch, tile, 132), 0);
}

TEST(Launch, ClustersAreWholeAndFitTheSms) {
    hopper::Kernel kernel = block_scaled_tile();
    kernel.cluster = {.rows = 2};
    hopper::Design tile = hopper::Design(kernel);
    EXPECT_EQ(blocks(block_scaled(128, 128, 128), tile, 132), 2);
    EXPECT_EQ(blocks(block_scaled(384, 128, 128), tile, 132), 4);
    EXPECT_EQ(blocks(block_scaled(8192, 8192, 128), tile, 131), 130);
    kernel.cluster = {.columns = 2};
    tile = hopper::Design(kernel);
    EXPECT_EQ(blocks(block_scaled(384, 128, 128), tile, 132), 6);
}

TEST(Launch, HugeSizesDoNotOverflow) {
    constexpr std::int64_t huge = std::numeric_limits<int>::max();
    Geometry g = block_scaled(huge, huge, 128);
    g.groups = huge;
    EXPECT_EQ(blocks(g, hopper::Design(block_scaled_tile()), 132), 132);
}

}  // namespace
}  // namespace tilewright::launch
