// Masked groups are planned for by a hint: half, once or twice the rows that there are.
#include "plan/tuned.h"

#include <gtest/gtest.h>

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
             .tile = {.shape = {.m = 128, .n = 192}},
             .date = "2026-11-22",
             .command = "tilewright tune"}};
}

bool is_found(const std::vector<TunedRow>& rows, std::int64_t hint) {
    return tuned_row(rows, "h200", workload(problem_of(masked(4, 1024, hint, 4096, 7168)))) != nullptr;
}

TEST(Hints, ATunedRowHoldsForHintsOfHalfTheMeanToTwiceIt) {
    const std::vector<TunedRow> rows = row_for(" expected_m=256");
    // 256 is the hint of a mean of 213.
    for (const int hint : {107, 128, 200, 256, 307, 512, 614}) EXPECT_TRUE(is_found(rows, hint)) << hint;
    for (const int hint : {0, 64, 106, 615, 1024}) EXPECT_FALSE(is_found(rows, hint)) << hint;
    const Workload other = workload(problem_of(masked(8, 1024, 256, 4096, 7168)));
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
        return tuned_row(rows, "h200", workload(problem_of(masked(4, 1024, hint, 4096, 7168))));
    };
    EXPECT_EQ(found(300), &rows[0]);
    EXPECT_EQ(found(400), &rows[1]);
    EXPECT_EQ(found(256), &rows[0]);
}

TEST(Hints, SpeakOfFewerRowsThanTheySay) {
    const Workload work = workload(problem_of(masked(4, 1024, 307, 4096, 7168)));
    const std::vector<Workload> all = expectations(work);
    ASSERT_EQ(all.size(), 9U);
    EXPECT_EQ(all.front().rows, 128);
    EXPECT_EQ(all[4].rows, 256);
    EXPECT_EQ(all.back().rows, 512);
    EXPECT_EQ(expectations(workload(problem_of(masked(1, 1024, 1024, 4096, 7168)))).back().rows, 853)
        << "no hint is for more rows than the tensor has";
    EXPECT_EQ(expectations(workload(problem_of(masked(4, 64, 1, 512, 512)))).front().rows, 1);
}

}  // namespace
}  // namespace tilewright::planner
