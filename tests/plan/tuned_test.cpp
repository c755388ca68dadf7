// Tuned rows: read, reported when bad, and stronger than the model as long as they are legal.
#include "plan/tuned.h"

#include <gtest/gtest.h>

#include "plan/choose.h"
#include "plan/problems.h"

namespace tilewright::planner {
namespace {

const std::string header = "device\tproblem\ttile\tdate\tcommand\n";
const std::string key = "dense 1x128:128x128 bf16 m=4096 n=7168 k=2048";

std::vector<TunedRow> rows_of(const std::string& tile, const std::string& problem = key) {
    const TunedTable table = parse_tuned(header + "h200\t" + problem + "\t" + tile + "\t2026-11-21\ttilewright tune\n");
    EXPECT_TRUE(table.problems.empty()) << testing::PrintToString(table.problems);
    return table.rows;
}

TEST(Tuned, WhatShipsIsSound) { EXPECT_NO_THROW(tuned_rows()); }

TEST(Tuned, BadLinesAreReportedAndTheRestIsKept) {
    const std::string good = "h200\t" + key + "\t128x128x128 stages=4\t2026-11-21\ttilewright tune\n";
    const TunedTable table = parse_tuned("# a comment\n" + header + good +                             //
                                         "h200\t" + key + "\t128x128 stages=4\t2026-11-21\tx\n" +      //
                                         "h200\t" + key + "\t128x128x128 stages=0\t2026-11-21\tx\n" +  //
                                         "h200\t" + key + "\t128x128x128\tyesterday\tx\n" +            //
                                         "h200\t" + key + "\t128x128x128\t2026-11-21\n" +              //
                                         "\t" + key + "\t128x128x128\t2026-11-21\tx\n" +               //
                                         "h200\t" + key + "\t128x128x128\t2026-11-21\t\n" + good);
    EXPECT_EQ(table.rows.size(), 2U);
    const std::vector<std::string> expected{
        "line 4: '128x128 stages=4' is not a tile; expected one such as '128x128x128 stages=4 cluster=2'",
        "line 5: '128x128x128 stages=0' is not a tile; expected one such as '128x128x128 stages=4 cluster=2'",
        "line 6: 'yesterday' is not a date; expected one such as 2026-11-21", "line 8: the device is empty",
        "line 9: the command that repeats the measurement is empty"};
    std::vector<std::string> problems = table.problems;
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems.front(),
              "line 7: got 4 cells; expected 5 (device, problem, tile, date, command), separated by tabs");
    problems.erase(problems.begin());
    EXPECT_EQ(problems, expected);
}

TEST(Tuned, ARowOverridesTheModel) {
    const Problem problem = problem_of(dense(4096, 7168, 2048));
    const Explanation untuned = explain(problem, h200(), {});
    const Explanation tuned = explain(problem, h200(), rows_of("128x128x128 stages=4"));
    EXPECT_FALSE(untuned.model_choice);
    ASSERT_TRUE(tuned.chosen && tuned.model_choice && tuned.next_best);
    EXPECT_EQ(tuned.chosen->tile, "128x128x128 stages=4");
    EXPECT_EQ(tuned.model_choice->tile, untuned.chosen->tile);
    EXPECT_EQ(tuned.tuned_by, "2026-11-21: tilewright tune");
}

TEST(Tuned, TheLastRowOfItsOwnProblemAndDeviceCounts) {
    std::vector<TunedRow> rows = rows_of("128x128x128 stages=4");
    rows.push_back(rows_of("192x128x128 stages=4 warpgroups=3").front());
    rows.push_back(rows_of("128x96x128 stages=4", "dense 1x128:128x128 bf16 m=4096 n=7168 k=2049").front());
    EXPECT_EQ(find_tuned(rows, "h200", key), &rows[1]);
    EXPECT_EQ(find_tuned(rows, "h100", key), nullptr);
    ProblemSizes limited = dense(4096, 7168, 2048);
    limited.sm_limit = 16;
    EXPECT_FALSE(explain(problem_of(limited), h200(), rows).model_choice) << "a row for all SMs was used for 16";
}

TEST(Tuned, AnIllegalRowIsRejectedWithItsReason) {
    const std::vector<TunedRow> rows = rows_of("256x128x128 stages=8");
    const Explanation explanation = explain(problem_of(dense(4096, 7168, 2048)), h200(), rows);
    EXPECT_FALSE(explanation.model_choice);
    ASSERT_FALSE(explanation.rejected.empty());
    EXPECT_EQ(explanation.rejected.back().rule, "shared memory");
    EXPECT_EQ(explanation.rejected.back().reason.rfind("tuned on 2026-11-21: 256x128 with 8 stages needs", 0), 0U);
}

TEST(Tuned, EveryCandidateKeepsItsName) {
    for (const Plan& plan : explain(problem_of(dense(64, 7168, 2048)), h200(), {}).legal) {
        ASSERT_TRUE(parse_tile(plan.tile)) << plan.tile;
        EXPECT_EQ(name(*parse_tile(plan.tile)), plan.tile);
    }
    for (const char* text : {"", "swap", "128x128", "128x128x128 stages", "128x128x128 depth=4", "128x128x128  swap",
                             "128x-1x128", "128x128x128 multicast=c", "128x128x99999999999",
                             "128x128x128 cluster=2 split=4", "128x128x128 cluster=2 multicast=a split=2"}) {
        EXPECT_FALSE(parse_tile(text)) << text;
    }
}

}  // namespace
}  // namespace tilewright::planner
