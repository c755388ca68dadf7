// The kernel that runs a call changes only on purpose. For the problems of the benchmarks' records and thousands of
// seeded random ones it is the one of tests/plan/choices.txt, which tools/record_choices writes.
#include "plan/choices.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "plan/workload.h"

namespace tilewright::planner {
namespace {

TEST(Choices, AreThoseOfTheRecord) {
    const std::vector<Problem> problems = choice_problems(TILEWRIGHT_RESULTS);
    EXPECT_GE(problems.size(), 4200U);
    const std::vector<std::string> before = read_choices(TILEWRIGHT_CHOICES);
    ASSERT_EQ(problems.size(), before.size()) << "other problems than the record's: run tools/record_choices";
    int different = 0;
    for (std::size_t i = 0; i < problems.size(); ++i) {
        const std::string now = choice(problems[i]);
        if (now == before[i] || ++different > 5) continue;
        ADD_FAILURE() << workload(problems[i]).key << ": " << now << ", before: " << before[i];
    }
    EXPECT_EQ(different, 0) << "of " << problems.size() << "; if they are meant to change, run tools/record_choices";
}

TEST(Choices, AreReadAsTheyWereWritten) {
    std::vector<std::string> choices;
    for (int i = 0; i < 200; ++i) choices.push_back("kernel of " + std::to_string(i % 70));
    const std::string path = testing::TempDir() + "tilewright_choices.txt";
    std::ofstream(path) << choices_text(choices, "c0ffee");
    EXPECT_EQ(read_choices(path), choices);
    std::remove(path.c_str());
}

}  // namespace
}  // namespace tilewright::planner
