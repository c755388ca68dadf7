// The random shapes that the planner's record is made of: the same for a seed on every machine, and none too large.
#include "bench/shapes.h"

#include <gtest/gtest.h>

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

TEST(RandomShapes, CanRunAndSpread) {
    int few = 0, many = 0, narrow = 0;
    for (const BenchShape& shape : random_shapes(40, 1)) {
        EXPECT_EQ(shape.n % 16, 0);
        EXPECT_EQ(shape.k % 64, 0);
        EXPECT_LE(static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k), 0x1p37);
        few += shape.m <= 128 ? 1 : 0;
        many += shape.m >= 1024 ? 1 : 0;
        narrow += shape.n % 64 != 0 ? 1 : 0;
    }
    EXPECT_GE(few, 5);
    EXPECT_GE(many, 5);
    EXPECT_GE(narrow, 10);
}

}  // namespace
}  // namespace tilewright::bench
