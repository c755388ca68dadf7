// The model against measured candidates: benchmarks/results/h200_candidates.jsonl (the peers' dense shapes, which it
// was fitted to) and h200_random.jsonl (seeded random shapes, which it never was).
#include "plan/record.h"

#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <set>

#include "plan/choose.h"
#include "plan/problems.h"

namespace tilewright::planner {
namespace {

const std::string fitted_record = TILEWRIGHT_RESULTS "/h200_candidates.jsonl";
const std::string random_record = TILEWRIGHT_RESULTS "/h200_random.jsonl";

/// How many choices may be slower than that is what the fit leaves: none is what it should.
void expect_good_choices(const std::vector<RecordedShape>& shapes, double most_slower, int exceptions) {
    std::string slower;
    int count = 0;
    for (const RecordedShape& shape : shapes) {
        EXPECT_GE(shape.measured.size(), 12U) << shape.work.key;
        const Verdict verdict = judge(shape, fitted_model);
        EXPECT_NE(verdict.slower, 0) << shape.work.key << ": the choice " << name(planned_tile(verdict.chosen))
                                     << " was never measured; repeat " << shape.command;
        if (verdict.slower <= most_slower) continue;
        ++count;
        slower += shape.work.key + ": " + name(planned_tile(verdict.chosen)) + "\n";
    }
    EXPECT_LE(count, exceptions) << slower;
}

/// What was measured with tiles that are illegal now says nothing of today's kernels.
std::string stale(const std::vector<RecordedShape>& shapes) {
    for (const RecordedShape& shape : shapes) {
        if (shape.illegal > 0) return "the record is of other kernels than today's; on a GPU: " + shape.command;
    }
    return "";
}

/// The peers' 25 shapes, and 24 of few rows.
TEST(Record, TheModelsChoiceIsNearTheBestOnFittedShapes) {
    const std::vector<RecordedShape> shapes = read_record(fitted_record);
    ASSERT_EQ(stale(shapes), "");
    EXPECT_EQ(shapes.size(), 49U);
    expect_good_choices(shapes, 1.05, 3);
}

TEST(Record, TheModelsChoiceIsNearTheBestOnRandomShapes) {
    const std::vector<RecordedShape> shapes = read_record(random_record);
    ASSERT_EQ(stale(shapes), "");
    EXPECT_EQ(shapes.size(), 40U);
    std::set<std::string> fitted;
    for (const RecordedShape& shape : read_record(fitted_record)) fitted.insert(shape.work.key);
    for (const RecordedShape& shape : shapes) EXPECT_FALSE(fitted.contains(shape.work.key)) << shape.work.key;
    expect_good_choices(shapes, 1.08, 2);
}

/// So that the two tests above speak of what users get.
TEST(Record, JudgesAsExplainChooses) {
    for (const RecordedShape& shape : read_record(fitted_record)) {
        const Explanation explanation =
            explain(problem_of(dense(shape.work.rows, shape.work.columns, shape.work.k)), h200(), {});
        EXPECT_EQ(name(planned_tile(judge(shape, fitted_model).chosen)), name(explanation.chosen->tile))
            << shape.work.key;
    }
}

}  // namespace
}  // namespace tilewright::planner
