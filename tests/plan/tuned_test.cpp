// Tuned rows: read, named when bad, and stronger than the model as long as they are legal.
#include "plan/tuned.h"

#include <gtest/gtest.h>

#include <regex>
#include <stdexcept>

#include "plan/choose.h"
#include "plan/problems.h"

namespace tilewright::planner {
namespace {

const std::string header = "device\tproblem\ttile\tdate\tcommand\n";
const std::string key = "dense 1x128:128x128 bf16 m=4096 n=7168 k=2048";

std::vector<TunedRow> rows_of(const std::string& tile, const std::string& problem = key) {
    return parse_tuned(header + "h200\t" + problem + "\t" + tile + "\t2026-11-21\ttilewright tune\n");
}

TEST(Tuned, WhatShipsSaysWhereItIsFrom) {
    ASSERT_FALSE(tuned_rows().empty());
    for (const TunedRow& row : tuned_rows()) {
        EXPECT_TRUE(row.device == "h200" || row.device == "h100") << row.device;
        EXPECT_FALSE(row.problem.empty());
        EXPECT_TRUE(std::regex_match(row.date, std::regex(R"(\d{4}-\d\d-\d\d)"))) << row.problem << ": " << row.date;
        EXPECT_FALSE(row.command.empty()) << row.problem;
    }
}

TEST(Tuned, AWrongLineIsNamed) {
    const auto message = [](const std::string& line) -> std::string {
        try {
            parse_tuned("# a comment\n" + header + line);
            return "";
        } catch (const std::logic_error& error) {
            return error.what();
        }
    };
    EXPECT_EQ(message("h200\t" + key + "\t128x128x128\t2026-11-21\tx\n"), "");
    EXPECT_EQ(message("h200\t" + key + "\t128x128 stages=4\t2026-11-21\tx\n"),
              "src/plan/tuned: line 3: '128x128 stages=4' is not a tile");
    EXPECT_EQ(
        message("h200\t" + key + "\t128x128x128\t2026-11-21\n"),
        "src/plan/tuned: line 3: got 4 cells; expected 5 (device, problem, tile, date, command), separated by tabs");
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
    const Workload work = workload(problem_of(dense(4096, 7168, 2048)));
    ASSERT_EQ(work.key, key);
    EXPECT_EQ(tuned_row(rows, "h200", work), &rows[1]);
    EXPECT_EQ(tuned_row(rows, "h100", work), nullptr);
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
    for (const char* text :
         {"", "swap", "128x128", "128x128x128 stages", "128x128x128 depth=4", "128x128x128  swap", "128x-1x128",
          "128x128x128 multicast=c", "128x128x99999999999", "128x128x128 cluster=2 split=4",
          "128x128x128 cluster=2 multicast=a split=2", "128x128x128 cluster=2", "128x128x128 multicast=b"}) {
        EXPECT_FALSE(parse_tile(text)) << text;
    }
}

}  // namespace
}  // namespace tilewright::planner
