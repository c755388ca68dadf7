// Row 17 of the acceptance plan, as far as it is about dense products: fewer rows never take noticeably longer.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cli/gpu_operands.h"
#include "gpu/recipes.h"
#include "measure/timing.h"

namespace tilewright::test {
namespace {

constexpr std::int64_t most_rows = 64;
// Whatever disturbs a call of 10 us (a neighbour, the profiler, the clock) makes it slower, never faster: the best of
// several medians is the kernel's own time. Every other race runs backwards: the first call of a kernel after another
// one finds no instructions in the SMs' caches, 0.2 to 0.3 us that its neighbour in m does not pay.
constexpr int races = 12;
static_assert(races % 2 == 0, "at the end m ascends again");
constexpr int calls_each = 10;
constexpr double tolerance = 1.05;  // acceptance plan, row 17

/// The first `m` rows of the problem, in the same memory: nothing but m differs.
Problem first_rows(const cli::GpuOperands& operands, std::int64_t m) {
    Problem problem = operands.on_device();
    problem.a.values.shape[0] = m;
    problem.a.scales.shape[0] = m;
    problem.d.shape[0] = m;
    return problem;
}

TEST(GpuTime, FewerRowsDoNotTakeLonger) {
    const measure::Device device;
    measure::Stopwatch stopwatch(device, measure::Flush::clean);
    const cli::GpuOperands operands({.recipe = recipe_of("1x128:128x128"), .m = most_rows, .n = 7168, .k = 2048},
                                    cli::ScaleLayout::m);
    std::vector<measure::Contestant> contestants;
    for (std::int64_t m = 1; m <= most_rows; ++m) {
        contestants.push_back(
            {.name = std::to_string(m), .call = [problem = first_rows(operands, m)](cuda::StreamHandle stream) {
                 run(problem, {.backend = Backend::hopper, .stream = stream});
             }});
    }
    std::vector<double> best(contestants.size(), std::numeric_limits<double>::infinity());
    for (int race = 0; race < races; ++race) {
        const std::vector<measure::Measurement> measured = stopwatch.race(contestants, calls_each);
        for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], measured[i].seconds);
        std::ranges::reverse(contestants);
        std::ranges::reverse(best);
    }
    for (std::size_t i = 0; i + 1 < best.size(); ++i) {
        const auto least = std::min_element(best.begin() + static_cast<std::ptrdiff_t>(i) + 1, best.end());
        EXPECT_LE(best[i], *least * tolerance) << "seconds of m = " << i + 1 << " and m = " << least - best.begin() + 1;
    }
}

}  // namespace
}  // namespace tilewright::test
