// The random shapes that the planner's record is made of, and the sizes and hints of groups.
#include "bench/shapes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace tilewright::bench {
namespace {

TEST(RandomShapes, FollowFromTheirSeed) {
    const std::vector<BenchShape> shapes = random_shapes(40, 1);
    ASSERT_EQ(shapes.size(), 40U);
    std::set<std::vector<std::int64_t>> keys;
    for (const BenchShape& shape : shapes) keys.insert(shape_key(shape));
    EXPECT_EQ(keys.size(), 40U);
    EXPECT_EQ(shape_key(shapes.front()), shape_key(random_shapes(1, 1).front()));
    EXPECT_FALSE(keys.contains(shape_key(random_shapes(1, 2).front())));
}

TEST(RandomShapes, OfAGroupingDoNotDependOnOthers) {
    const std::vector<BenchShape> alone = random_shapes(5, 3, {Grouping::m_grouped_masked});
    const std::vector<BenchShape> both = random_shapes(5, 3, {Grouping::dense, Grouping::m_grouped_masked});
    ASSERT_EQ(both.size(), 10U);
    for (std::size_t i = 0; i < alone.size(); ++i) {
        EXPECT_EQ(shape_key(alone[i]), shape_key(both[5 + i]));
        EXPECT_EQ(group_sizes(alone[i]), group_sizes(both[5 + i]));
    }
}

TEST(RandomShapes, HaveCasesOfTheirSizes) {
    for (const Grouping grouping : {Grouping::m_grouped_offsets, Grouping::m_grouped_masked}) {
        for (const BenchShape& shape : random_shapes(20, 1, {grouping})) {
            const check::CaseSpec spec = grouped_case(shape);
            EXPECT_EQ(check::impossible(spec), "") << shape_text(shape);
            EXPECT_EQ(spec.group_sizes, shape.sizes);
            const std::int64_t rows = std::accumulate(shape.sizes.begin(), shape.sizes.end(), std::int64_t{0});
            EXPECT_EQ(spec.m, grouping == Grouping::m_grouped_masked ? shape.max_m : rows);
        }
    }
}

TEST(Shapes, AHotGroupLeavesTheSumAsItIs) {
    const BenchShape even{.grouping = Grouping::m_grouped_offsets, .groups = 8, .m = 2048, .n = 7168, .k = 2048};
    const auto sizes = [&](Grouping grouping, std::int64_t times) {
        BenchShape shape = even;
        shape.grouping = grouping;
        return group_sizes(with_hot_group(shape, times));
    };
    using Sizes = std::vector<std::int64_t>;
    EXPECT_EQ(sizes(Grouping::m_grouped_offsets, 1), Sizes(8, 2048));
    EXPECT_EQ(sizes(Grouping::m_grouped_offsets, 30), (Sizes{13290, 442, 442, 442, 442, 442, 442, 442}));
    EXPECT_EQ(sizes(Grouping::k_grouped, 1), Sizes(8, 2048));
    EXPECT_EQ(sizes(Grouping::k_grouped, 100), (Sizes{15488, 128, 128, 128, 128, 128, 128, 128}));
    EXPECT_EQ(shape_key(with_hot_group(even, 30)), shape_key(even));
    EXPECT_EQ(grouped_case(with_hot_group(even, 30)).m, 8 * 2048);
}

/// int(1.2 * mean) of Python.
TEST(Shapes, MaskedOnesHaveTheHintOfTheirCallers) {
    const auto hint = [](std::int64_t mean) {
        return BenchShape{.grouping = Grouping::m_grouped_masked, .m = mean}.expected_m();
    };
    EXPECT_EQ(hint(20), 24);
    EXPECT_EQ(hint(64), 76);
    EXPECT_EQ(hint(1024), 1228);
    EXPECT_EQ((BenchShape{.grouping = Grouping::m_grouped_offsets, .m = 20}).expected_m(), 0);
}

}  // namespace
}  // namespace tilewright::bench
