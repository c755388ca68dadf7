// The model against the times of this library's own kernels: benchmarks/results/h200.jsonl, measured on one H200.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/problems.h"
#include "plan/record_problems.h"
#include "problem/packed_problem.h"

namespace tilewright::planner {
namespace {

struct Limits {
    double least;
    double most;
    double geomean_least;
    double geomean_most;
    std::size_t measured;  // at least
};

/// Predicted over measured seconds of the tile that was measured, by operation.
std::map<std::string, std::vector<double>> ratios() {
    std::map<std::string, std::vector<double>> list;
    std::ifstream file(TILEWRIGHT_RESULTS "/h200.jsonl");
    for (std::string line; std::getline(file, line);) {
        const nlohmann::json row = nlohmann::json::parse(line);
        if (!row.contains("tile") || row.contains("sustained_s")) continue;  // another library, or a hot L2
        for (const Plan& plan : explain(record_problem(row)).legal) {
            if (plan.tile != row["tile"].get<std::string>()) continue;
            list[row["op"]].push_back(plan.cost.seconds / (row["us"].get<double>() * 1e-6));
        }
    }
    return list;
}

void expect_within(const std::vector<double>& values, const Limits& limits) {
    double logarithms = 0;
    for (const double ratio : values) {
        EXPECT_GE(ratio, limits.least);
        EXPECT_LE(ratio, limits.most);
        logarithms += std::log(ratio);
    }
    EXPECT_GE(values.size(), limits.measured) << "tiles of the record are no candidates any more: it is stale";
    const double geomean = std::exp(logarithms / static_cast<double>(values.size()));
    EXPECT_GE(geomean, limits.geomean_least);
    EXPECT_LE(geomean, limits.geomean_most);
}

// The constants are fitted to dense candidates (record_test.cpp) and to no grouped call. In grouped calls, groups of
// the benchmark differ in size, and the model's guess of their last tiles decides.
TEST(Predictions, AreNearTheMeasuredTimesOfOurKernels) {
    const std::map<std::string, std::vector<double>> all = ratios();
    ASSERT_EQ(all.size(), 3U);
    expect_within(all.at("dense"), {0.72, 1.28, 0.95, 1.05, 200});
    expect_within(all.at("m_grouped_contiguous"), {0.80, 1.35, 0.90, 1.15, 12});
    // Callers say 1.2 times the rows that there are: 8 groups of 100 that are planned for 120 take one tile, not one or
    // two.
    expect_within(all.at("m_grouped_masked"), {0.80, 1.45, 0.90, 1.16, 20});
}

Workload packed_for_bf16(const char* recipe, std::int64_t m, std::int64_t n, std::int64_t k) {
    ProblemSizes sizes = dense(m, n, k);
    sizes.recipe = recipe_named(recipe);
    return workload(with_packed_shape(problem_of(sizes), 0));
}

/// One H200, 2026-11-24 (docs/experiments/016-tuned-rows.md and h200_fp4.jsonl). Two blocks of 64x16 are on an SM, one
/// of the others.
TEST(Predictions, AreNearTheTimesOfPackedWeightsForBf16) {
    struct Measured {
        const char* recipe;
        std::int64_t m;
        const char* tile;
        double microseconds;
    };
    const Measured rows[]{{"bf16:mxfp4", 1, "64x16x128 stages=10 warpgroups=1 swap split=4", 27.4},
                          {"bf16:mxfp4", 16, "64x16x128 stages=10 warpgroups=1 swap split=4", 28.0},
                          {"bf16:mxfp4", 1, "256x16x128 stages=9 warpgroups=4 swap split=4", 22.7},
                          {"bf16:mxfp4", 16, "256x16x128 stages=9 warpgroups=4 swap split=4", 22.9},
                          {"bf16:mxfp4", 32, "256x32x128 stages=7 warpgroups=4 swap split=4", 25.3},
                          {"bf16:nvfp4", 1, "64x16x128 stages=10 warpgroups=1 swap split=4", 31.7},
                          {"bf16:nvfp4", 16, "64x16x128 stages=10 warpgroups=1 swap split=4", 32.5},
                          {"bf16:nvfp4", 32, "256x32x128 stages=7 warpgroups=4 swap split=4", 30.6}};
    for (const Measured& row : rows) {
        const Workload work = packed_for_bf16(row.recipe, row.m, 7168, 16384);
        const hopper::Kernel tile = device_tile(parse_tile(row.tile).value(), shapeless_kernel(work));
        const double ratio = cost(tile, work, h200()).seconds * 1e6 / row.microseconds;
        EXPECT_NEAR(ratio, 1, 0.1) << work.key << ": " << row.tile;
    }
}

/// By instructions, because no time of them was measured. Row scales are epilogue scales, as those of bf16 would be.
TEST(Predictions, PromotionNextToNvfp4CostsWhatItsInstructionsDo) {
    const auto compute = [](const char* recipe, const char* tile) {
        const Workload work = packed_for_bf16(recipe, 64, 7168, 16384);
        return cost(device_tile(parse_tile(tile).value(), shapeless_kernel(work)), work, h200()).compute;
    };
    for (const char* tile :
         {"256x64x128 stages=5 warpgroups=4 swap", "256x32x128 stages=7 warpgroups=4 swap split=4"}) {
        EXPECT_EQ(compute("row:nvfp4", tile), compute("bf16:nvfp4", tile)) << tile;
        EXPECT_GT(compute("1x128:nvfp4", tile), compute("row:nvfp4", tile)) << tile;
        EXPECT_LT(compute("1x128:nvfp4", tile), 1.5 * compute("row:nvfp4", tile)) << tile;
    }
}

/// Without tuned rows: 256 rows per block where 64 would need two blocks on an SM, and 64 where all of them fit.
TEST(Predictions, ChooseAmongPackedTilesForBf16) {
    const auto chosen = [](std::int64_t m, std::int64_t n, std::int64_t k) {
        return choose(packed_for_bf16("bf16:mxfp4", m, n, k), h200(), {}).shape.m;
    };
    EXPECT_EQ(chosen(1, 7168, 16384), 256);
    EXPECT_EQ(chosen(16, 7168, 16384), 256);
    EXPECT_EQ(chosen(4, 1024, 4096), 64);
}

}  // namespace
}  // namespace tilewright::planner
