// Packed weights that are expanded: faster than without, and k is split where it is for the same numbers in other
// forms.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "formats/packed_layout.h"
#include "hopper/description/design.h"
#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/kernel_class.h"
#include "plan/legality.h"
#include "plan/shipped_kernels.h"
#include "problem/canonical_order.h"
#include "problem/packed_problem.h"
#include "problem/problem_sizes.h"

namespace tilewright::planner {
namespace {

ProblemSizes sizes_of(std::int64_t m, std::int64_t n, std::int64_t k, const char* recipe = "1x128:mxfp4") {
    return {.recipe = parse_recipe(recipe).value(), .m = m, .n = n, .k = k};
}

ProblemSizes groups_of(std::int64_t groups, std::int64_t m, std::int64_t n, std::int64_t k,
                       const char* recipe = "1x128:mxfp4") {
    ProblemSizes sizes = sizes_of(m, n, k, recipe);
    sizes.grouping = Grouping::m_grouped_offsets;
    sizes.groups = groups;
    return sizes;
}

std::vector<ProblemSizes> many() {
    std::vector<ProblemSizes> list;
    for (const auto& [n, k] : {std::pair{4096, 7168},
                               {7168, 2048},
                               {2112, 7168},
                               {1536, 4096},
                               {5760, 2880},
                               {16384, 1024},
                               {2880, 2880},
                               {1024, 65536}}) {
        for (const char* recipe :
             {"1x128:mxfp4", "row:mxfp4", "tensor:mxfp4", "mxfp8:mxfp4", "bf16:mxfp4", "bf16:nvfp4", "nvfp4:nvfp4"}) {
            for (const std::int64_t m : {512, 700, 1024, 2000, 4096, 16384}) {
                list.push_back(sizes_of(m, n, k, recipe));
                for (const std::int64_t groups : {2, 8, 30}) {
                    list.push_back(groups_of(groups, groups * m, n, k, recipe));
                }
                list.push_back(sizes_of(8192, n, k, recipe));
                list.back().grouping = Grouping::m_grouped_masked;
                list.back().groups = 8;
                list.back().expected_m = m;
            }
        }
    }
    return list;
}

Problem packed(const ProblemSizes& sizes) { return with_packed_shape(problem_of(sizes), 0); }

/// NVFP4 has none.
Problem with_wide_rows(const ProblemSizes& sizes) {
    Problem problem = packed(sizes);
    const bool as_bf16 = problem.b.packed.activations == PackedFor::bf16;
    if (is_mxfp4(sizes.recipe.b)) {
        if (as_bf16)
            problem.b.packed.internal = formats::PackedInternal{.wide_row = 3}.words();
        else
            problem.b.packed.internal = formats::PackedInternal{.windows = 3}.words();
    }
    return problem;
}

TEST(ExpandedWeights, ArePlannedAsFp8WithAFactorForEachRow) {
    const ProblemSizes sizes = groups_of(4, 32768, 4096, 7168);
    const Workload work = workload(packed(sizes));
    ASSERT_TRUE(work.before.expand_b && work.if_not_expanded);
    EXPECT_EQ(name(Recipe{work.geometry.a.recipe, work.geometry.b.recipe}), "1x128:e4m3");
    EXPECT_EQ(shapeless_kernel(work).order.folded, Folded::b);
    EXPECT_EQ(shapeless_kernel(work).b,
              (hopper::Side{.values = hopper::ValueFormat::e4m3, .scale_rows = 1, .scale_k = 32}));
    EXPECT_EQ(work.key, "m_grouped_offsets 1x128:e4m3 bf16 m=32768 n=4096 k=7168 groups=4 expanded");
    EXPECT_EQ(work.if_not_expanded->key, "m_grouped_offsets 1x128:mxfp4 bf16 m=32768 n=4096 k=7168 groups=4 packed");
    const Plan chosen = plan(packed(sizes), h200());
    ProblemSizes fp8 = sizes;
    fp8.recipe = parse_recipe("1x128:row").value();
    EXPECT_EQ(chosen.tile, plan(problem_of(fp8), h200()).tile);
    const double weights = 4 * 4096.0 * 7168;
    EXPECT_NEAR(static_cast<double>(chosen.cost.preparation_bytes), weights * (1 + 4352.0 / 8192), weights * 0.01);
    EXPECT_EQ(workload(with_wide_rows(sizes)).if_not_expanded, nullptr);
}

TEST(ExpandedWeights, ArePlannedAsBf16NextToBf16) {
    const ProblemSizes mxfp4 = groups_of(4, 32768, 4096, 7168, "bf16:mxfp4");
    const Workload work = workload(packed(mxfp4));
    ASSERT_TRUE(work.before.expand_b && work.if_not_expanded);
    const auto bf16 = [](int scale_rows, int scale_k) {
        return hopper::Side{.values = hopper::ValueFormat::bf16, .scale_rows = scale_rows, .scale_k = scale_k};
    };
    EXPECT_EQ(shapeless_kernel(work).order.folded, Folded::b);
    EXPECT_EQ(shapeless_kernel(work).a, bf16(0, 0));
    EXPECT_EQ(shapeless_kernel(work).b, bf16(1, 32));
    EXPECT_EQ(plan(packed(mxfp4), h200()).tile, "128x256x64 stages=3");
    const double weights = 4 * 4096.0 * 7168;
    EXPECT_NEAR(static_cast<double>(plan(packed(mxfp4), h200()).cost.preparation_bytes), weights * (2 + 4352.0 / 8192),
                weights * 0.01);
    const Workload nvfp4 = workload(packed(groups_of(4, 32768, 4096, 7168, "nvfp4:nvfp4")));
    EXPECT_EQ(shapeless_kernel(nvfp4).order.folded, Folded::none);
    EXPECT_EQ(shapeless_kernel(nvfp4).a, bf16(1, 16));
    EXPECT_EQ(shapeless_kernel(nvfp4).b, bf16(1, 16));
    EXPECT_EQ(workload(with_wide_rows(mxfp4)).if_not_expanded, nullptr);
    EXPECT_EQ(workload(packed(groups_of(32, 32 * 256, 4096, 7168, "bf16:mxfp4"))).if_not_expanded, nullptr);
}

/// By the model, or level with them. In bf16 the thresholds are those of calls that were timed with a slower tile of
/// packed weights (docs/experiments/020-expanded-weights.md).
TEST(ExpandedWeights, AreFasterThanPackedOnes) {
    std::map<std::string, int> expanded;
    for (const ProblemSizes& sizes : many()) {
        const Workload work = workload(packed(sizes));
        if (!work.if_not_expanded) continue;
        const auto seconds = [](const Workload& each) {
            return plan_of(choose(each, h200(), {}), each, h200()).cost.seconds;
        };
        const double with = seconds(work), without = seconds(*work.if_not_expanded);
        const double most = work.geometry.a.recipe.values == Format::bf16 ? 1.09 : 1.001;
        EXPECT_LT(with, most * without) << work.key;
        ++expanded[name(sizes.recipe)];
    }
    for (const auto& [recipe, count] : expanded) EXPECT_GT(count, 40) << recipe;
    EXPECT_EQ(expanded.size(), 7U);
}

/// By the model none of them is split; the next test has one that is.
TEST(ExpandedWeights, HaveTheSplitsOfTheSameWeightsInOtherForms) {
    std::map<std::string, int> expanded;
    for (const DeviceDescription& device : known_devices()) {
        for (const ProblemSizes& sizes : many()) {
            const Problem problem = packed(sizes);
            if (!expands_weights(geometry(problem))) continue;
            const std::vector<std::int64_t> splits = planned_k_splits(problem, device);
            const hopper::Kernel tile = chosen_tile(problem, gpu_call(problem), device);
            EXPECT_EQ(k_splits(tile, sizes.k), splits);
            EXPECT_FALSE(tile.b.is_packed());
            EXPECT_EQ(tile.order.folded, is_mxfp4(sizes.recipe.b) ? Folded::b : Folded::none)
                << "another kernel does not ship, and is rounded otherwise";
            EXPECT_EQ(tile.b.is_nvfp4(), is_nvfp4(sizes.recipe.b));
            EXPECT_EQ(planned_k_splits(with_wide_rows(sizes), device), splits) << "wide rows " << workload(problem).key;
            EXPECT_EQ(planned_k_splits(problem_of(sizes), device), splits) << "not packed " << workload(problem).key;
            EXPECT_FALSE(why_illegal(tile, workload(problem), device));
            ++expanded[name(sizes.recipe)];
        }
    }
    for (const auto& [recipe, count] : expanded) EXPECT_GT(count, 350) << recipe;
    EXPECT_EQ(expanded.size(), 7U);
}

/// In multiples of 128, whatever a stage has of k.
TEST(ExpandedWeights, OfBf16AreSplitWherePackedOnesAre) {
    hopper::Kernel tile{.shape = {.m = 64, .n = 64, .warpgroups = 1}};
    const Recipe recipe = parse_recipe("bf16:mxfp4").value();
    const hopper::Kernel scales = kernel_class(recipe, Accumulation::promoted, Format::bf16, Format::bf16);
    hopper::Kernel expanded = device_tile(tile, scales);
    tile.swap_ab = true;
    hopper::Kernel packed = device_tile(tile, with_packed_weights(scales));
    ASSERT_NE(hopper::Design(expanded).stage_k, hopper::Design(packed).stage_k);
    for (const int slices : {2, 4, 8}) {
        expanded.cluster = packed.cluster = {.k_slices = slices};
        for (const std::int64_t k : {1024, 1030, 1088, 1090, 2880, 7168, 7200}) {
            EXPECT_EQ(k_splits(expanded, k), k_splits(packed, k)) << k;
        }
    }
}

/// A row for the same tile with k split otherwise is rejected, one for FP8 weights says nothing.
TEST(ExpandedWeights, TakeNoTunedTileThatWouldChangeBits) {
    const Problem problem = packed(sizes_of(4096, 4096, 7168));
    const Workload work = workload(problem);
    ASSERT_NE(work.if_not_expanded, nullptr);
    const auto row = [](const std::string& key, const char* tile) {
        return TunedRow{.device = "h200",
                        .problem = key,
                        .tile = parse_tile(tile).value(),
                        .date = "2026-11-24",
                        .command = "tilewright tune"};
    };
    const char* const split = "64x128x128 stages=5 warpgroups=1 split=2";
    const char* const whole = "64x128x128 stages=5 warpgroups=1";
    const Explanation rejected = explain(problem, h200(), {row(work.key, split)});
    EXPECT_EQ(rejected.tuned_by, "");
    EXPECT_EQ(choose(work, h200(), {row(work.key, split)}).cluster.k_slices, 1);
    EXPECT_NE(explain(problem, h200(), {row(work.key, whole)}).tuned_by, "");
    EXPECT_EQ(explain(problem, h200(), {row("dense 1x128:row bf16 m=4096 n=4096 k=7168", whole)}).tuned_by, "");
    // One for packed weights says where k is split.
    const TunedRow of_packed = row(work.if_not_expanded->key, "64x64x128 stages=6 warpgroups=1 swap split=4");
    EXPECT_EQ(choose(work, h200(), {of_packed}).cluster.k_slices, 4);
}

}  // namespace
}  // namespace tilewright::planner
