// The description of a kernel: what the planner and device code both derive from it, and the order of additions that it
// has from the recipe.
#include "hopper/description/design.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "hopper/description/roles.h"
#include "kernel_of_recipe.h"
#include "plan/choose.h"
#include "plan/kernel_class.h"
#include "plan/problems.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"
#include "plan/workload.h"
#include "problem/canonical_order.h"
#include "problem/hopper_rules.h"
#include "problem/packed_problem.h"
#include "sample.h"

namespace tilewright::hopper {
namespace {

template <Design design>
constexpr int shared_bytes_of = design.shared_bytes;

constexpr Recipe blocks{{.granularity = Granularity::block_1x128}, {.granularity = Granularity::block_128x128}};
constexpr Kernel of_blocks(const Kernel& kernel) {
    return tests::with_scales(kernel,
                              planner::kernel_class(blocks, Accumulation::promoted, Format::e4m3, Format::e4m3));
}

// The design as a template argument, and the sizes of a layout worked out by hand:
// - 3 stages of 256 + 128 rows of 128 bytes and 256 row scales;
// - D in 16 bits;
// - one unused scale for each stage;
// - 4 chunks of 32 block scales;
// - unused epilogue scales;
// - two barriers for each of 3 stages, 6 places of scales, 2 warpgroups and work tiles, of which one is unused;
// - whole KiB.
constexpr Kernel main_kernel = of_blocks({.shape = {.m = 256, .n = 128}, .stages = 3});
constexpr Design main_design = Design(main_kernel);
static_assert(shared_bytes_of<main_design> ==
              (3 * (384 * 128 + 1024) + 256 * 128 * 2 + 128 + 4 * 32 * 4 + 16 + 2 * 12 * 8 + 32 + 2 * 8 + 1023) / 1024 *
                  1024);

TEST(Design, SwapExchangesTheOperands) {
    Kernel kernel = of_blocks({.shape = {.m = 128, .n = 32}, .swap_ab = true});
    const Design swapped = Design(kernel);
    EXPECT_EQ(swapped.d_rows, 32);
    EXPECT_EQ(swapped.d_columns, 128);
    EXPECT_EQ(swapped.mma_a.side, kernel.b);
    EXPECT_EQ(swapped.mma_b.side, kernel.a);
    EXPECT_EQ(swapped.operand_a().side, kernel.a);
    EXPECT_EQ(swapped.mma_b.scales_of_row, 1);
    EXPECT_EQ(swapped.mma_a.scales_of_row, 0);
    kernel.swap_ab = false;
    EXPECT_EQ(Design(kernel).mma_a.scales_of_row, 1);
    EXPECT_EQ(Design(kernel).mma_b.scales_of_row, 0);
}

// Measured limits of setmaxnreg. A launch gives 640 threads 96 registers each, so four warpgroups get at most 112. A
// launch gives 384 threads 168, so two warpgroups get 232 with 40 left for the loading one.
TEST(Design, RegistersAddUpToTheFile) {
    const auto design = [](int warpgroups) {
        return Design({.shape = {.m = 64 * warpgroups, .n = 64, .warpgroups = warpgroups}});
    };
    EXPECT_EQ(design(2).consumer_registers, 232);
    EXPECT_EQ(design(3).consumer_registers, 160);
    EXPECT_EQ(design(4).consumer_registers, 112);
    for (int warpgroups = 1; warpgroups <= 4; ++warpgroups) {
        const Design d = design(warpgroups);
        const int used = warpgroup_threads * (d.producer_registers + warpgroups * d.consumer_registers);
        EXPECT_LE(used, registers_per_sm / d.threads / 8 * 8 * d.threads);  // A launch gives them in steps of 8.
    }
}

TEST(Design, EveryWarpHasARole) {
    const Design usual = Design({});
    EXPECT_EQ(role_of(usual, 0), Role::load);
    EXPECT_EQ(role_of(usual, 1), Role::scheduler_and_scales);
    EXPECT_EQ(role_of(usual, 3), Role::store);
    for (int warp = producer_warps; warp < usual.threads / warp_threads; ++warp) {
        EXPECT_EQ(role_of(usual, warp), Role::multiply);
    }
    EXPECT_EQ(role_of(main_design, 1), Role::scheduler_and_scales);
    EXPECT_EQ(role_of(main_design, 2), Role::row_scales);
    EXPECT_EQ(role_of(main_design, 3), Role::store);
}

TEST(Design, EveryCandidateLoadsWholeStages) {
    const planner::Workload work = planner::workload(problem_of(planner::dense(4096, 7168, 2048)));
    for (const Kernel& kernel : planner::candidates(planner::shapeless_kernel(work))) {
        const Design design = Design(kernel);
        const int a = design.d_rows / design.cluster.columns, b = design.d_columns / design.cluster.rows;
        EXPECT_EQ(a % design.operand_a().box_rows, 0);
        EXPECT_EQ(b % design.operand_b().box_rows, 0);
        EXPECT_EQ(design.mma_a.value_bytes + design.mma_b.value_bytes, (design.d_rows + design.d_columns) * row_bytes);
    }
}

/// The order that the kernels of a recipe have. fp8 without scales with scales of rows counts as scales of rows,
/// because the kernels of row : row multiply by ones there.
std::optional<CanonicalOrder> order_of_kernels(const Recipe& recipe, Accumulation accumulation) {
    std::optional<CanonicalOrder> order = canonical_order(recipe, accumulation);
    const bool no_scales = is_fp8(recipe.b.values) && recipe.b.granularity == Granularity::none;
    if (order && no_scales && order->a == ScaleUse::end) order->b = ScaleUse::end;
    return order;
}

struct Compared {
    int kernels = 0;
    int packed = 0;
    int expanded = 0;
    int unpromoted = 0;
};

/// The kernel that runs the call, if there is one.
void compare(const Problem& problem, const Recipe& recipe, Compared& compared) {
    const bool packed = problem.b.packed.given();
    if (!validate(problem, Backend::automatic, Check::shapes).empty()) return;  // unpromoted sums of FP4 weights
    const planner::Workload work = planner::workload(problem);
    if (!unsupported_on_hopper(work.asked).empty()) return;
    const std::string call = name(recipe) + " " + std::string(name(problem.accumulation)) + (packed ? " packed" : "");
    const std::optional<CanonicalOrder> order = order_of_kernels(recipe, problem.accumulation);
    ASSERT_TRUE(order.has_value()) << call;
    const Kernel tile = planner::choose(work, h200(), {});
    const Kernel kernel = planner::variant(work.geometry, tile);
    EXPECT_EQ(tile.order, *order) << call;
    EXPECT_EQ(kernel.order, *order) << call;
    EXPECT_STREQ(planner::contradiction(tile), nullptr) << call;
    EXPECT_STREQ(planner::contradiction(kernel), nullptr) << call;
    for (const Side& side : {kernel.a, kernel.b}) {
        EXPECT_EQ(step_products(order->step), wgmma_k_bytes / (side.values == ValueFormat::bf16 ? 2 : 1)) << call;
    }
    ++compared.kernels;
    compared.packed += packed ? 1 : 0;
    compared.expanded += work.before.expand_b ? 1 : 0;
    compared.unpromoted += order->chain == 0 && order->step == StepKind::fp8 ? 1 : 0;
}

TEST(Description, EveryKernelHasTheCanonicalOrderOfItsRecipe) {
    Compared compared;
    tests::Sample sample(5);
    for (const Recipe& recipe : all_recipes()) {
        if (!sample.takes_next()) continue;
        for (const Accumulation accumulation : {Accumulation::promoted, Accumulation::unpromoted}) {
            for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets,
                                            Grouping::k_grouped_aligned_offsets, Grouping::k_grouped_flat}) {
                for (const Layout layout : {Layout::nt, Layout::nn}) {
                    for (const std::int64_t m : {16, 16384}) {
                        const Problem problem = problem_of({.grouping = grouping,
                                                            .recipe = recipe,
                                                            .layout = layout,
                                                            .m = m,
                                                            .n = 4096,
                                                            .k = 7168,
                                                            .groups = grouping == Grouping::dense ? 1 : 4,
                                                            .accumulation = accumulation});
                        compare(problem, recipe, compared);
                        if (takes_packed_weights(problem)) compare(with_packed_shape(problem, 0), recipe, compared);
                    }
                }
            }
        }
    }
    EXPECT_GT(compared.kernels, tests::sampled(400, 10));
    EXPECT_GT(compared.packed, tests::sampled(50, 10));
    EXPECT_GT(compared.expanded, tests::sampled(10, 10));
    EXPECT_GT(compared.unpromoted, tests::sampled(10, 10));
}

}  // namespace
}  // namespace tilewright::hopper
