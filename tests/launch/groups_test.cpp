// Grouped launches: what the kernel is told of sizes that are on the device, and how large a grid serves any of them.
#include "launch/launch.h"

#include <gtest/gtest.h>

#include <limits>

#include "hopper/description/design.h"
#include "launch/problems.h"

namespace tilewright::launch {
namespace {

using test::address;
using test::lowered;

Geometry grouped(Grouping grouping, std::int64_t m, std::int64_t groups) {
    Geometry g = test::block_scaled(m, 256, 1024);
    const bool separate = grouping == Grouping::m_grouped_masked;
    g.groups = groups;
    g.grouping.grouping = grouping;
    g.grouping.sizes = row_major(address(0x60000), Format::i32, {grouping == Grouping::m_grouped_indices ? m : groups});
    g.a.value_strides.group = separate ? m * 1024 : 0;
    g.b.value_strides.group = 256 * 1024;
    g.d.group_stride = separate ? m * 256 : 0;
    return g;
}

hopper::Kernel tile() {
    hopper::Kernel tile = test::block_scaled_tile();
    tile.groups = hopper::Groups::rows;
    return tile;
}

TEST(Groups, TheKernelIsToldWhereSizesAreAndWhatTheySay) {
    Geometry g = grouped(Grouping::m_grouped_offsets, 1000, 7);
    hopper::GroupSizes sizes = lowered(g, tile(), 132).arguments.sizes;
    EXPECT_EQ(sizes.data, address(0x60000));
    EXPECT_EQ(sizes.stride, 1);
    EXPECT_EQ(sizes.kind, hopper::SizeKind::ends);
    EXPECT_EQ(sizes.alignment, 1);
    EXPECT_FALSE(sizes.is_64_bit);
    g.grouping.sizes = row_major(address(0x60000), Format::i64, {7});
    g.grouping.sizes.strides[0] = 3;
    sizes = group_sizes(g);
    EXPECT_TRUE(sizes.is_64_bit);
    EXPECT_EQ(sizes.stride, 3);
    EXPECT_EQ(group_sizes(grouped(Grouping::m_grouped_masked, 1000, 7)).kind, hopper::SizeKind::counts);
    EXPECT_EQ(group_sizes(grouped(Grouping::m_grouped_indices, 1000, 7)).kind, hopper::SizeKind::indices);
    EXPECT_EQ(group_sizes(test::block_scaled(64, 64, 64)).data, nullptr);
}

TEST(Groups, AnAlignmentBeyondTheRowsIsAsGoodAsAnyOther) {
    Geometry g = grouped(Grouping::m_grouped_aligned_offsets, 1000, 7);
    EXPECT_EQ(group_sizes(g).alignment, 128);
    g.grouping.alignment = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(group_sizes(g).alignment, 1000);
    g.m = 0;
    EXPECT_EQ(group_sizes(g).alignment, 1);
}

TEST(Groups, OfBlocksOfRowsThatHaveOneGroupTheFirstIsRead) {
    Geometry g = grouped(Grouping::m_grouped_indices, 1000, 7);
    hopper::GroupSizes sizes = group_sizes(g);
    EXPECT_EQ(sizes.stride, 1);
    EXPECT_EQ(sizes.blocks, 1000);
    g.grouping.index_alignment = 128;
    g.grouping.sizes.strides[0] = 3;
    sizes = group_sizes(g);
    EXPECT_EQ(sizes.stride, 3 * 128);
    EXPECT_EQ(sizes.row_stride, 3);
    EXPECT_EQ(sizes.alignment, 128);
    EXPECT_EQ(sizes.blocks, 8);
    g.grouping.index_alignment = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(group_sizes(g).alignment, 1000);
    EXPECT_EQ(group_sizes(g).blocks, 1);
}

// TMA begins at multiples of four scales only.
TEST(Groups, TransposedScalesComeByTmaWhereGroupsBeginAligned) {
    const auto by_tma = [](Grouping grouping, std::int64_t alignment) {
        Geometry g = grouped(grouping, 1000, 7);
        test::transpose_scales(g.a, 1000);
        g.grouping.alignment = alignment;
        return lowered(g, tile(), 132).arguments.scales_by_tma;
    };
    EXPECT_TRUE(by_tma(Grouping::m_grouped_masked, 1));
    EXPECT_TRUE(by_tma(Grouping::m_grouped_aligned_offsets, 128));
    EXPECT_FALSE(by_tma(Grouping::m_grouped_aligned_offsets, 2));
    EXPECT_FALSE(by_tma(Grouping::m_grouped_offsets, 128));
    EXPECT_FALSE(by_tma(Grouping::m_grouped_indices, 128)) << "the alignment of ends";
    Geometry g = grouped(Grouping::m_grouped_indices, 1000, 7);
    test::transpose_scales(g.a, 1000);
    for (const std::int64_t alignment : {1, 2, 4, 100, 127, 128}) {
        g.grouping.index_alignment = alignment;
        EXPECT_EQ(lowered(g, tile(), 132).arguments.scales_by_tma, alignment % 4 == 0) << alignment;
    }
}

TEST(Groups, RowsShareAMatrixOrEachGroupHasOne) {
    Launch launched = lowered(grouped(Grouping::m_grouped_offsets, 1000, 7), tile(), 132);
    EXPECT_EQ(launched.a.sizes[2], 1U);
    EXPECT_EQ(launched.b->sizes[2], 7U);
    EXPECT_EQ(launched.arguments.batch, 7);
    ASSERT_TRUE(launched.d.has_value());
    EXPECT_EQ(launched.d->sizes[2], 1U);
    launched = lowered(grouped(Grouping::m_grouped_masked, 1000, 7), tile(), 132);
    EXPECT_EQ(launched.a.sizes[2], 7U);
    EXPECT_EQ(launched.d->sizes[2], 7U);
}

/// A warpgroup's rows at a time, so that rows after a group's end need not be loaded.
TEST(Groups, RowsOfALoadWarpgroupByWarpgroup) {
    EXPECT_EQ(lowered(grouped(Grouping::m_grouped_offsets, 1000, 7), tile(), 132).a.box[1], 64U);
    hopper::Kernel pair = tile();
    pair.shape.m = 192;
    pair.shape.warpgroups = 3;
    EXPECT_EQ(hopper::Design(pair).operand_a().box_rows, 64);
    pair.cluster = {.columns = 2};
    EXPECT_EQ(hopper::Design(pair).operand_a().box_rows, 96) << "half of the tile is no multiple of 64 rows";
    EXPECT_EQ(hopper::Design(pair).operand_b().box_rows, 128);
}

TEST(Groups, TheGridServesAnySizes) {
    constexpr int sms = 1000;
    const hopper::Design tile = hopper::Design(launch::tile());
    // Two tiles of columns. Each group's last rows may take a separate tile.
    EXPECT_EQ(blocks(grouped(Grouping::m_grouped_offsets, 1024, 7), tile, sms), (8 + 7) * 2);
    EXPECT_EQ(blocks(grouped(Grouping::m_grouped_offsets, 3, 7), tile, sms), (1 + 3) * 2);
    EXPECT_EQ(blocks(grouped(Grouping::m_grouped_indices, 100, 7), tile, sms), (1 + 100) * 2);
    Geometry in_blocks = grouped(Grouping::m_grouped_indices, 100, 7);
    in_blocks.grouping.index_alignment = 16;
    EXPECT_EQ(blocks(in_blocks, tile, sms), (1 + 7) * 2);
    EXPECT_EQ(blocks(grouped(Grouping::m_grouped_masked, 129, 7), tile, sms), 2 * 7 * 2);
    EXPECT_EQ(blocks(grouped(Grouping::m_grouped_offsets, 1 << 20, 7), tile, 132), 132);
    EXPECT_EQ(blocks(grouped(Grouping::m_grouped_offsets, 1024, 0), tile, sms), 0);
    EXPECT_EQ(blocks(grouped(Grouping::m_grouped_masked, 0, 5), tile, sms), 0);
    constexpr std::int64_t huge = std::numeric_limits<int>::max();
    EXPECT_EQ(blocks(grouped(Grouping::m_grouped_masked, huge, huge), tile, 132), 132);
}

}  // namespace
}  // namespace tilewright::launch
