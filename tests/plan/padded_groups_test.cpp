// Groups that begin aligned are padded. The planner expects the same rows as for the same groups by exact ends, so that
// the drop-in's callers get the same tile.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include "hopper/description/design.h"
#include "plan/problems.h"
#include "plan/tile_distribution.h"
#include "plan/workload.h"

namespace tilewright::planner {
namespace {

ProblemSizes groups_of(Grouping grouping, std::int64_t groups, std::int64_t m, std::int64_t n, std::int64_t k) {
    return {.grouping = grouping, .recipe = block_scaled, .m = m, .n = n, .k = k, .groups = groups};
}

/// Group sizes of the benchmark, their sum by itself and padded to 128: the drop-in's callers pass the padded one.
TEST(PaddedGroups, TakeTheTileOfExactEnds) {
    struct Shape {
        std::int64_t groups, m, padded, n, k;
    };
    const Shape shapes[]{{4, 32769, 33024, 4096, 7168}, {4, 32769, 33024, 7168, 2048}, {8, 33712, 34176, 4096, 7168},
                         {8, 33712, 34176, 7168, 2048}, {32, 7869, 9600, 4096, 7168},  {32, 7869, 9600, 7168, 2048},
                         {8, 2465, 2816, 4096, 7168},   {8, 2465, 2816, 7168, 2048},   {16, 11070, 12160, 4096, 7168},
                         {64, 8218, 12288, 4096, 1536}, {32, 30778, 32640, 5760, 2880}};
    for (const auto& [groups, m, padded, n, k] : shapes) {
        const Problem exact = problem_of(groups_of(Grouping::m_grouped_offsets, groups, m, n, k));
        const Problem ends = problem_of(groups_of(Grouping::m_grouped_aligned_offsets, groups, padded, n, k));
        Problem indices = problem_of(groups_of(Grouping::m_grouped_indices, groups, padded, n, k));
        indices.groups.index_alignment = 128;
        const std::string tile = plan(exact).tile;
        EXPECT_EQ(plan(ends).tile, tile) << groups << " groups, m " << m << ", n " << n << ", k " << k;
        EXPECT_EQ(plan(indices).tile, tile) << groups << " groups, m " << m << ", n " << n << ", k " << k;
    }
}

TEST(PaddedGroups, AreNoMoreThanBlocksOfRows) {
    Problem problem = problem_of(groups_of(Grouping::m_grouped_indices, 64, 1000, 256, 512));
    problem.groups.index_alignment = 128;
    const Workload work = workload(problem);
    EXPECT_EQ(work.products, 8);
    EXPECT_EQ(work.rows, 62);  // half a block of each is padding
    EXPECT_EQ(work.total_rows, 492);
    const auto tiles = [&](int rows) {
        const hopper::Kernel tile{.shape = {.m = rows, .warpgroups = 1}, .groups = hopper::Groups::rows};
        return tile_distribution(hopper::Design(tile), work, h200()).row_tiles;
    };
    EXPECT_NEAR(tiles(64), 2, 0.05) << "padding is computed";
    EXPECT_NEAR(tiles(128), 1, 0.05);
    problem.groups.index_alignment = 1;
    EXPECT_EQ(workload(problem).products, 64);
    EXPECT_EQ(workload(problem).total_rows, 1000);
}

}  // namespace
}  // namespace tilewright::planner
