// Masked groups are planned for by a hint: half, once or twice the rows that there are.
#include "plan/hints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/legality.h"
#include "plan/pack.h"
#include "plan/problems.h"

namespace tilewright::planner {
namespace {

ProblemSizes masked(std::int64_t groups, std::int64_t m, std::int64_t hint, std::int64_t n, std::int64_t k) {
    return {.grouping = Grouping::m_grouped_masked,
            .recipe = block_scaled,
            .m = m,
            .n = n,
            .k = k,
            .groups = groups,
            .expected_m = hint};
}

std::vector<TunedRow> row_for(const std::string& hint) {
    return {{.device = "h200",
             .problem = "m_grouped_masked 1x128:128x128 bf16 m=1024 n=4096 k=7168 groups=4" + hint,
             .tile = {.m = 128, .n = 192},
             .date = "2026-11-22",
             .command = "tilewright tune"}};
}

bool is_found(const std::vector<TunedRow>& rows, std::int64_t hint) {
    return tuned_row(rows, "h200", describe(problem_of(masked(4, 1024, hint, 4096, 7168)))) != nullptr;
}

TEST(Hints, ATunedRowHoldsForHintsWithinAFactorOfTwo) {
    const std::vector<TunedRow> rows = row_for(" expected_m=256");
    for (const int hint : {128, 200, 256, 307, 512}) EXPECT_TRUE(is_found(rows, hint)) << hint;
    for (const int hint : {0, 64, 127, 513, 1024}) EXPECT_FALSE(is_found(rows, hint)) << hint;
    const Workload other = describe(problem_of(masked(8, 1024, 256, 4096, 7168)));
    EXPECT_EQ(tuned_row(rows, "h200", other), nullptr) << "another number of groups";
}

TEST(Hints, NoGroupHasMoreRowsThanTheTensor) {
    EXPECT_TRUE(is_found(row_for(" expected_m=1024"), 5000));
    EXPECT_TRUE(is_found(row_for(" expected_m=1024"), 0)) << "all rows, where nothing is said";
}

TEST(Hints, TheNearestRowCounts) {
    std::vector<TunedRow> rows = row_for(" expected_m=256");
    rows.push_back(row_for(" expected_m=512").front());
    const auto found = [&](std::int64_t hint) {
        return tuned_row(rows, "h200", describe(problem_of(masked(4, 1024, hint, 4096, 7168))));
    };
    EXPECT_EQ(found(300), &rows[0]);
    EXPECT_EQ(found(400), &rows[1]);
    EXPECT_EQ(found(256), &rows[0]);
}

/// Seconds that the model expects, over true rows from 0.85 to 1.15 of the mean.
double seconds(const hopper::Tile& tile, Workload work, std::int64_t mean) {
    double sum = 0;
    for (const double factor : {0.85, 0.925, 1.0, 1.075, 1.15}) {
        work.rows = std::min(static_cast<std::int64_t>(static_cast<double>(mean) * factor), work.geometry.m);
        work.total_rows = static_cast<double>(work.products * work.rows);
        sum += cost(tile, work, h200()).seconds;
    }
    return sum / 5;
}

// 3 % is the target; where a shape is one wave for one tile and two for another, no tile is good for half and twice the
// rows. Before hints were hints, 48 of 180 such choices lost more than 3 %, the worst 35 %.
TEST(Hints, WrongOnesCostLittle) {
    struct Shape {
        std::int64_t groups, m, mean;
    };
    const Shape shapes[]{{1, 1024, 1024}, {2, 1024, 512},  {4, 1024, 256}, {6, 4096, 1024}, {8, 1024, 128},
                         {16, 512, 64},   {32, 1024, 192}, {32, 256, 20},  {64, 512, 32},   {128, 256, 8}};
    int asked = 0;
    int slow = 0;
    double worst = 1;
    for (const auto& [n, k] : {std::pair{4096, 7168}, {7168, 2048}}) {
        for (const Shape& shape : shapes) {
            const Workload truth = describe(problem_of(masked(shape.groups, shape.m, shape.mean, n, k)));
            double best = std::numeric_limits<double>::infinity();
            for (const hopper::Tile& tile : shipped_tiles(family_tile(truth))) {
                if (!why_illegal(tile, truth, h200())) best = std::min(best, seconds(tile, truth, shape.mean));
            }
            for (const double factor : {0.5, 0.75, 1.0, 1.2, 1.5, 2.0}) {
                const auto hint = static_cast<std::int64_t>(static_cast<double>(shape.mean) * factor);
                const Workload work = describe(problem_of(masked(shape.groups, shape.m, hint, n, k)));
                const double ratio = seconds(choose(work, h200(), {}), truth, shape.mean) / best;
                worst = std::max(worst, ratio);
                slow += ratio > 1.03 ? 1 : 0;
                ++asked;
            }
        }
    }
    EXPECT_EQ(asked, 120);
    // One group of 1,024 rows of which half or three quarters are expected: one wave of large tiles, two of others.
    EXPECT_LE(slow, 2);
    EXPECT_LE(worst, 1.27);
}

}  // namespace
}  // namespace tilewright::planner
