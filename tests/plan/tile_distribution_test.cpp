// The busiest block as the planner counts it, against the tiles that the blocks take.
#include "plan/tile_distribution.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hopper/schedule/dense.h"
#include "plan/devices.h"
#include "plan/problems.h"

namespace tilewright::planner {
namespace {

/// In the time of full tiles. A tile takes the time of its warpgroups that have rows.
template <hopper::Kernel tile>
double most_of_a_block(const Workload& work, int blocks) {
    constexpr hopper::Design design = hopper::Design(tile);
    const int rows = static_cast<int>(work.rows);
    const hopper::SchedulerParams params =
        scheduler_params(design, {.m = rows, .n = static_cast<int>(work.columns), .batch = 1, .raster_width = 8});
    constexpr int size = tile.cluster.size();  // At run time clang 14 finds zeros in this template argument.
    double most = 0;
    for (int block = 0; block < blocks; block += size) {  // the first of a cluster has most rows
        hopper::Schedule<design> schedule(params, block, blocks);
        double sum = 0;
        for (hopper::WorkTile at = schedule.next(); at.exists != 0; at = schedule.next()) {
            const int own = std::min(rows - at.row, design.d_rows);
            sum += relative_time(design, hopper::tiles_along(own, design.rows_per_warpgroup));
        }
        most = std::max(most, sum);
    }
    return most;
}

template <hopper::Kernel tile>
void expect_busiest_block(std::int64_t m, std::int64_t n) {
    const Workload work = workload(problem_of(dense(m, n, 1024)));
    constexpr hopper::Design design = hopper::Design(tile);
    const int blocks = resident_blocks(design, h200().sms);
    const TileDistribution over = tile_distribution(design, work, h200());
    EXPECT_NEAR(over.rounds, most_of_a_block<tile>(work, blocks), 1e-9) << m << " x " << n;
    EXPECT_LT(over.full_units, over.units);
    EXPECT_LE(over.waves(), over.rounds + 1e-9);
}

TEST(TileDistribution, KnowsTheBusiestBlock) {
    for (const std::int64_t n : {128, 2112, 4096, 7168, 16896, 32768}) {
        for (const std::int64_t m : {129, 777, 1300, 4128}) expect_busiest_block<hopper::Kernel{}>(m, n);
        for (const std::int64_t m : {193, 320, 777}) {
            expect_busiest_block<hopper::Kernel{.shape = {.m = 192, .warpgroups = 3}}>(m, n);
        }
        for (const std::int64_t m : {257, 320, 1300}) {
            expect_busiest_block<hopper::Kernel{.cluster = {.rows = 2}}>(m, n);
        }
    }
}

TEST(TileDistribution, OtherLastRowsCountInFull) {
    const Workload work = workload(problem_of(dense(128 + 65, 4096, 1024)));
    const TileDistribution over = tile_distribution(hopper::Design(hopper::Kernel{}), work, h200());
    EXPECT_EQ(over.full_units, over.units);
    EXPECT_EQ(over.rounds, 1);
}

Workload masked(std::int64_t groups, std::int64_t room, std::int64_t mean) {
    Workload work = workload(problem_of({.grouping = Grouping::m_grouped_masked,
                                         .recipe = block_scaled,
                                         .m = room,
                                         .n = 4096,
                                         .k = 7168,
                                         .groups = groups,
                                         .expected_m = mean}));
    EXPECT_EQ(work.rows, mean);
    return work;
}

constexpr hopper::Design wide =
    hopper::Design(hopper::Kernel{.shape = {.m = 128, .n = 256}, .stages = 3, .groups = hopper::Groups::rows});
constexpr hopper::Design narrow =
    hopper::Design(hopper::Kernel{.shape = {.m = 128, .n = 192}, .stages = 4, .groups = hopper::Groups::rows});

// 132 blocks have room for eight rows of 16 tiles, and for twice six of 22 tiles.
TEST(TileDistribution, GroupsThatJustFillARoundTakeMoreOnTheMean) {
    const TileDistribution of_wide = tile_distribution(wide, masked(4, 1024, 256), h200());
    EXPECT_GT(of_wide.rounds, 1.7);
    EXPECT_LT(of_wide.rounds, 2.2);
    const TileDistribution of_narrow = tile_distribution(narrow, masked(4, 1024, 256), h200());
    EXPECT_NEAR(of_narrow.rounds, 2, 0.2);
}

TEST(TileDistribution, NoCallTakesMoreRoundsThanItsTensorHasRows) {
    EXPECT_EQ(tile_distribution(wide, masked(1, 1024, 1000), h200()).rounds, 1);
}

TEST(TileDistribution, SomeGroupsOfFewRowsAreEmpty) {
    const TileDistribution over = tile_distribution(wide, masked(64, 1024, 1), h200());
    EXPECT_NEAR(over.row_tiles, 0.632, 1e-3);
    EXPECT_NEAR(tile_distribution(wide, masked(64, 1024, 16), h200()).row_tiles, 1, 1e-6);
}

// Each slice of k has a block. Clusters of 4 and 8 fill 120 SMs, twice where two blocks fit.
TEST(TileDistribution, SlicesOfGroupsTakeBlocksOfTheirOwn) {
    for (const int slices : {2, 4, 8}) {
        for (const std::int64_t mean : {1, 64, 1024}) {
            const hopper::Design split = hopper::Design(hopper::Kernel{.shape = {.m = 64, .n = 128, .warpgroups = 1},
                                                                       .stages = 3,
                                                                       .cluster = {.k_slices = slices},
                                                                       .groups = hopper::Groups::rows});
            const TileDistribution over = tile_distribution(split, masked(8, 1024, mean), h200());
            EXPECT_GE(over.rounds, over.waves() - 1e-9) << slices << " slices, mean " << mean;
            EXPECT_LE(over.rounds, over.waves() + 2) << slices << " slices, mean " << mean;
        }
    }
}

TEST(TileDistribution, GroupsOfAnySizeAreCounted) {
    for (const std::int64_t mean : {1LL << 20, 1LL << 40}) {
        const TileDistribution over = tile_distribution(wide, masked(4, mean, mean), h200());
        EXPECT_NEAR(over.rounds * 132 / over.units, 1, 0.1) << mean;
    }
}

}  // namespace
}  // namespace tilewright::planner
