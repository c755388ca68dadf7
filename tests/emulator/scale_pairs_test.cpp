// The kernels of the matrix against the planner: it asks for no pair of scales that none of them multiplies.
#include <gtest/gtest.h>

#include <algorithm>

#include "check/case.h"
#include "emulator/kernels.h"
#include "plan/legality.h"
#include "plan/workload.h"

namespace tilewright::tests {
namespace {

TEST(ScalePairs, AreThoseOfEveryServedRecipe) {
    if (sanitizes) GTEST_SKIP() << "a sample";
    for (const Recipe& recipe : all_recipes()) {
        const check::Case test(
            {.recipe = recipe, .m = 128, .n = 128, .k = 128, .distribution = check::Distribution::ones});
        const planner::Workload work = planner::workload(test.problem());
        if (!planner::unsupported(work).empty()) continue;
        const hopper::Kernel shapeless = planner::shapeless_kernel(work);
        EXPECT_TRUE(std::ranges::any_of(emulated_kernels(), [&](const EmulatedKernel& kernel) {
            const auto &a = kernel.tile.a, &b = kernel.tile.b;
            return kernel.tile.order == shapeless.order && a.scale_k == shapeless.a.scale_k &&
                   a.scale_rows == shapeless.a.scale_rows && b.scale_k == shapeless.b.scale_k &&
                   b.scale_rows == shapeless.b.scale_rows;
        })) << name(recipe);
    }
}

}  // namespace
}  // namespace tilewright::tests
