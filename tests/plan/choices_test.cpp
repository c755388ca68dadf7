// The kernel that runs a call is the one that ran it before the decision moved into one place: for the problems of the
// benchmarks' records and thousands of seeded random ones (tests/plan/choices.txt).
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "plan/random_problems.h"
#include "plan/record_problems.h"
#include "plan/runnable.h"
#include "plan/variant.h"
#include "plan/workload.h"

namespace tilewright::planner {
namespace {

std::vector<std::string> earlier_choices() {
    std::vector<std::string> kernels;
    std::vector<std::string> choices;
    std::ifstream file(TILEWRIGHT_CHOICES);
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("kernel ")) kernels.push_back(line.substr(7));
        if (!line.starts_with("problems ")) continue;
        for (std::size_t at = 9; at + 1 < line.size(); at += 2) {
            choices.push_back(kernels.at(static_cast<std::size_t>((line[at] - 'A') * 26 + line[at + 1] - 'A')));
        }
    }
    return choices;
}

std::string choice(const Problem& problem) {
    const Geometry g = geometry(problem);
    const hopper::Tile tile = variant(g, chosen_tile(problem, g, h200()));
    return name(planned_tile(tile)) + ", " + std::string(name(variant_of(tile)));
}

TEST(Choices, AreThoseOfTheRecord) {
    std::vector<Problem> problems =
        record_problems({TILEWRIGHT_RESULTS "/h200.jsonl", TILEWRIGHT_RESULTS "/h200_candidates.jsonl",
                         TILEWRIGHT_RESULTS "/h200_random.jsonl"});
    EXPECT_GE(problems.size(), 200U);
    for (const Problem& problem : random_problems(4096)) problems.push_back(problem);
    const std::vector<std::string> before = earlier_choices();
    ASSERT_EQ(problems.size(), before.size()) << "the records have other problems: make choices.txt anew";
    int different = 0;
    int compared = 0;
    for (std::size_t i = 0; i < problems.size(); ++i) {
        if (problems[i].groups.grouping == Grouping::m_grouped_masked) continue;  // hints_test.cpp
        ++compared;
        const std::string now = choice(problems[i]);
        if (now == before[i] || ++different > 5) continue;
        ADD_FAILURE() << describe(problems[i]).key << ": " << now << ", before: " << before[i];
    }
    EXPECT_EQ(different, 0) << "of " << compared;
    EXPECT_GE(compared, 3700);
}

}  // namespace
}  // namespace tilewright::planner
