// Sizes as users have them: the same for a seed, of every magnitude, mostly off multiples of tiles, groups of uneven
// popularity.
#include "check/user_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace tilewright::check {
namespace {

constexpr int draws = 2000;

std::vector<UserSizes> drawn(Grouping grouping, int count = draws, std::uint64_t seed = 1) {
    Random random(seed);
    std::vector<UserSizes> list;
    for (int i = 0; i < count; ++i) list.push_back(user_sizes(grouping, random));
    return list;
}

int count_if(const std::vector<UserSizes>& list, const std::function<bool(const UserSizes&)>& is) {
    return static_cast<int>(std::count_if(list.begin(), list.end(), is));
}

std::int64_t sum(const std::vector<std::int64_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

TEST(UserSizes, OfDenseProductsHaveEveryMagnitude) {
    const std::vector<UserSizes> list = drawn(Grouping::dense);
    for (const UserSizes& sizes : list) {
        EXPECT_TRUE(sizes.m >= 1 && sizes.m <= 4096) << sizes.m;
        EXPECT_TRUE(sizes.n >= 512 && sizes.n <= 32768 && sizes.n % 8 == 0) << sizes.n;
        EXPECT_TRUE(sizes.k >= 512 && sizes.k <= 16384 && sizes.k % 16 == 0) << sizes.k;
    }
    // A twelfth of the logarithm's range, and a sixth of n's.
    for (std::int64_t least = 1; least < 4096; least *= 2) {
        EXPECT_NEAR(count_if(list, [&](const UserSizes& s) { return s.m >= least && s.m < 2 * least; }), draws / 12, 80)
            << least;
    }
    EXPECT_NEAR(count_if(list, [](const UserSizes& s) { return s.n >= 16384; }), draws / 6, 80);
}

TEST(UserSizes, OneInFourIsOffEveryMultipleOf64) {
    const auto is_off = [](const UserSizes& s) { return s.m % 64 != 0 && s.n % 64 != 0 && s.k % 64 != 0; };
    for (const Grouping grouping : {Grouping::dense, Grouping::batched, Grouping::m_grouped_masked}) {
        const std::vector<UserSizes> list = drawn(grouping);
        const auto weight_is_off = [](const UserSizes& s) { return s.n % 64 != 0 || s.k % 64 != 0; };
        EXPECT_NEAR(count_if(list, weight_is_off), draws / 4, 80);
        if (grouping != Grouping::m_grouped_masked) {
            EXPECT_EQ(count_if(list, weight_is_off), count_if(list, is_off));
        }
    }
}

TEST(UserSizes, FollowFromTheirSeed) {
    for (const Grouping grouping : all_groupings) {
        const std::vector<UserSizes> list = drawn(grouping, 20);
        const std::vector<UserSizes> again = drawn(grouping, 20);
        const std::vector<UserSizes> other = drawn(grouping, 20, 2);
        int same = 0;
        for (std::size_t i = 0; i < list.size(); ++i) {
            EXPECT_EQ(list[i].n, again[i].n);
            EXPECT_EQ(list[i].group_sizes, again[i].group_sizes);
            same += list[i].n == other[i].n && list[i].k == other[i].k ? 1 : 0;
        }
        EXPECT_LE(same, 1);
    }
}

TEST(UserSizes, OfGroupsAreWhatARouterGivesThem) {
    for (const Grouping grouping :
         {Grouping::m_grouped_indices, Grouping::m_grouped_offsets, Grouping::m_grouped_masked, Grouping::k_grouped}) {
        const bool along_k = grouping == Grouping::k_grouped;
        for (const UserSizes& sizes : drawn(grouping, 300)) {
            ASSERT_EQ(static_cast<std::int64_t>(sizes.group_sizes.size()), sizes.groups);
            EXPECT_TRUE(sizes.groups >= 2 && sizes.groups <= 128) << sizes.groups;
            EXPECT_EQ(along_k ? sizes.k : sizes.m, std::max<std::int64_t>(1, sum(sizes.group_sizes) / sizes.groups));
            EXPECT_LE(static_cast<double>(sizes.groups * sizes.n * sizes.k), most_bytes);
            for (const std::int64_t size : sizes.group_sizes) {
                EXPECT_TRUE(!along_k || size % 128 == 0) << size;
                EXPECT_TRUE(grouping != Grouping::m_grouped_masked || size <= sizes.max_m) << size;
            }
        }
    }
}

TEST(RoutedRows, AreAllChoicesOfAllTokens) {
    Random random(1);
    for (const std::int64_t choices : {1, 2, 7, 8}) {
        const std::vector<std::int64_t> rows = routed_rows(8, 500, choices, 1, random);
        EXPECT_EQ(sum(rows), 500 * choices);
        EXPECT_LE(*std::max_element(rows.begin(), rows.end()), 500) << "a token takes a group once";
    }
}

TEST(RoutedRows, AreAsUnevenAsTheyAreTold) {
    Random random(1);
    const auto largest_over_mean = [&](double skew) {
        const std::vector<std::int64_t> rows = routed_rows(64, 64000, 1, skew, random);
        return static_cast<double>(*std::max_element(rows.begin(), rows.end())) / 1000;
    };
    EXPECT_LT(largest_over_mean(0), 1.2);
    EXPECT_GT(largest_over_mean(1.5), 3);
}

}  // namespace
}  // namespace tilewright::check
