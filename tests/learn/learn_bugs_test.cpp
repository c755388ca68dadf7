// The test of the learning kernel's test: every bug that plant_bugs.cpp plants is found.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "learn/learn_case.h"
#include "planted_bugs.generated.h"

#include "emulator/primitives.h"

namespace tilewright::tests {
namespace {

struct Planted {
    std::string name;
    LearningKernel kernel;
};

std::vector<Planted> planted() {
#define TILEWRIGHT_PLANTED(name) {#name, kernel_of(&learn::name::block_scaled_gemm)},
    return {TILEWRIGHT_PLANTED_BUGS(TILEWRIGHT_PLANTED)};
#undef TILEWRIGHT_PLANTED
}

class LearnBugs : public testing::TestWithParam<std::size_t> {};

TEST_P(LearnBugs, AreFound) {
    const Planted bug = planted()[GetParam()];
    // First three tiles for each of two blocks, and more k-blocks than stages. Then nine rows of tiles.
    for (const auto& spec : {learning_call(136, 264, 656), learning_call(1100, 136, 48)}) {
        for (const Timings& timings : all_timings()) {
            const std::string found = outcome(bug.kernel, spec, timings);
            if (found.empty()) continue;
            RecordProperty("found", describe(timings) + ": " + found);
            return;
        }
    }
    FAIL() << "no timing shows the bug " << bug.name;
}

INSTANTIATE_TEST_SUITE_P(All, LearnBugs, testing::Range(std::size_t{0}, planted().size()),
                         [](const auto& about) { return planted()[about.param].name; });

TEST(LearnBugs, ArePlanted) { EXPECT_EQ(planted().size(), 15U); }

}  // namespace
}  // namespace tilewright::tests
