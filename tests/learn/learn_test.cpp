// The kernel to read returns the bits of the CPU's `bit_exact`, ends by itself if a load is lost, and stays readable.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "learn/learn_case.h"
#include "sample.h"

namespace tilewright::tests {
namespace {

using emulator::Timing;

struct Sizes {
    std::int64_t m, n, k;
};

/// - one row, a few columns, and the shortest k that TMA takes
/// - ends within a tile, a warpgroup's rows, a k-block
/// - more k-blocks than stages, and numbers that four does not divide
/// - more tiles than blocks, and a second raster of tiles with fewer rows
constexpr std::array sizes{Sizes{1, 8, 16},      Sizes{128, 128, 128}, Sizes{64, 137, 272}, Sizes{129, 264, 400},
                           Sizes{200, 136, 640}, Sizes{37, 256, 1168}, Sizes{300, 392, 96}, Sizes{1156, 264, 48}};

class Learn : public testing::TestWithParam<std::size_t> {};

TEST_P(Learn, HasTheBitsOfTheCpu) {
    const auto& [m, n, k] = sizes[GetParam()];
    check::CaseSpec spec = learning_call(m, n, k);
    tests::Sample sample(5);
    for (std::size_t i = 0; i < all_timings().size(); ++i) {
        Timings timings = all_timings()[i];
        timings.sms = 1 + static_cast<int>(i % 4);
        spec.distribution = i % 2 == 0 ? check::Distribution::normal : check::Distribution::log_normal;
        if (!sample.takes_next()) continue;
        EXPECT_EQ(outcome(learning_kernel(), spec, timings), "") << check::describe(spec) << "\n" << describe(timings);
        if (m > 1000 && i % 4 != 0) ++i;  // one of three
    }
}

INSTANTIATE_TEST_SUITE_P(All, Learn, testing::Range(std::size_t{0}, sizes.size()));

/// The load warp notices and ends the consumers' waits. The first k-block, and one that no later load waits for.
TEST(LearningKernel, EndsIfALoadIsLost) {
    for (const std::int64_t k : {256, 1024}) {
        const int last = static_cast<int>(k / 128) * 3 - 1;
        for (const int lost : {0, last}) {
            const Timing timing = lost == 0 ? Timing::early : Timing::late;
            const Timings timings{.sms = 1, .tma = timing, .wgmma = timing, .lost_load = lost};
            EXPECT_EQ(outcome(learning_kernel(), learning_call(128, 256, k), timings), "report: empty")
                << "k = " << k << ", without load " << lost;
        }
    }
}

TEST(LearningKernel, ServesNoOtherCalls) {
    check::CaseSpec spec = learning_call(64, 64, 128);
    spec.alpha = 2;
    EXPECT_THROW(outcome(learning_kernel(), spec, {}), std::invalid_argument);
    spec = learning_call(64, 64, 128);
    spec.a_scales_transposed = false;
    EXPECT_NO_THROW(outcome(learning_kernel(), spec, {}));  // one k-block: both orders are the same
    spec.k = 256;
    EXPECT_THROW(outcome(learning_kernel(), spec, {}), std::invalid_argument);
}

TEST(LearningKernel, IsOneShortFile) {
    std::ifstream file(TILEWRIGHT_LEARNING_KERNEL);
    int lines = 0;
    std::vector<std::string> includes;
    for (std::string line; std::getline(file, line); ++lines) {
        if (line.substr(0, 8) == "#include") includes.push_back(line.substr(9));
    }
    EXPECT_GT(lines, 100);
    EXPECT_LE(lines, 250);
    EXPECT_EQ(includes, (std::vector<std::string>{"\"base/math.h\"", "\"hopper/ptx/ptx.h\""}));
}

}  // namespace
}  // namespace tilewright::tests
