#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <array>

namespace tilewright::measure {
namespace {

TEST(Statistics, MedianOfOddEvenAndNone) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
    EXPECT_EQ(median({}), 0);
}

TEST(Statistics, GeometricMean) {
    const std::array values{0.5, 2.0, 8.0};
    EXPECT_NEAR(geometric_mean(values), 2.0, 1e-12);
    EXPECT_EQ(geometric_mean({}), 0);
}

TEST(Statistics, ClockIsCyclesOverTime) {
    const std::array<ClockReading, 3> before{{{1000, 5000}, {7, 5000}, {0, 0}}};
    const std::array<ClockReading, 3> after{{{2500, 6000}, {1507, 6000}, {900, 6000}}};
    EXPECT_NEAR(average_hertz(before, after), 1.5e9, 1);
}

TEST(Statistics, SmsThatWereReadOnceOrAtOneTimeDoNotCount) {
    const std::array<ClockReading, 4> before{{{1000, 5000}, {1000, 5000}, {0, 0}, {9000, 5000}}};
    const std::array<ClockReading, 4> after{{{3000, 6000}, {1000, 5000}, {4000, 6000}, {8000, 6000}}};
    EXPECT_NEAR(average_hertz(before, after), 2e9, 1);
    EXPECT_EQ(average_hertz(before, before), 0);
    EXPECT_EQ(average_hertz({}, after), 0);
}

}  // namespace
}  // namespace tilewright::measure
