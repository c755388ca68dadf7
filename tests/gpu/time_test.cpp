// Row 17 of the acceptance plan, as far as it is about dense products: fewer rows never take noticeably longer.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <memory>
#include <vector>

#include "cli/gpu_operands.h"
#include "gpu/recipes.h"
#include "measure/timing.h"

namespace tilewright::test {
namespace {

TEST(GpuTime, FewerRowsDoNotTakeLonger) {
    const measure::Device device;
    measure::Stopwatch stopwatch(device, measure::Flush::clean);
    std::vector<std::int64_t> rows;
    for (std::int64_t m = 1; m <= 64; ++m) rows.push_back(m);
    std::vector<std::unique_ptr<cli::GpuOperands>> operands;
    std::vector<measure::Contestant> contestants;
    for (const std::int64_t m : rows) {
        operands.push_back(std::make_unique<cli::GpuOperands>(
            planner::Sizes{.recipe = recipe_of("1x128:128x128"), .m = m, .n = 7168, .k = 2048}, cli::ScaleLayout::m));
        contestants.push_back(
            {.name = std::to_string(m), .call = [&given = *operands.back()](cuda::StreamHandle stream) {
                 run(given.on_device(), {.backend = Backend::hopper, .stream = stream});
             }});
    }
    const std::vector<measure::Measurement> measured = stopwatch.race(contestants, 12);
    for (std::size_t i = 0; i + 1 < measured.size(); ++i) {
        for (std::size_t more = i + 1; more < measured.size(); ++more) {
            EXPECT_LE(measured[i].seconds, measured[more].seconds * 1.05) << "m = " << rows[i] << " and " << rows[more];
        }
    }
}

}  // namespace
}  // namespace tilewright::test
