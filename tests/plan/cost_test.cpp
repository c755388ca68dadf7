// The cost model as a whole: what must hold whatever its constants are.
#include "plan/cost.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "hopper/description/design.h"
#include "plan/choose.h"
#include "plan/legality.h"
#include "plan/problems.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"
#include "problem/packed_problem.h"
#include "sample.h"

namespace tilewright::planner {
namespace {

/// The time of the usual tile. Sizes decide whether a call takes it, because TMA stores rows of whole 16 bytes only.
double predicted(const ProblemSizes& sizes) {
    const Workload work = workload(problem_of(sizes));
    return plan_of(choose_tiles(work, h200(), tuned_rows()).usual, work, h200()).cost.seconds;
}

std::vector<ProblemSizes> bases() {
    std::vector<ProblemSizes> list;
    for (const Recipe& recipe : {block_scaled, both_row_scaled, per_tensor}) {
        for (Grouping grouping : planned_groupings) {
            list.push_back({.grouping = grouping, .recipe = recipe, .m = 300, .n = 2112, .k = 1000, .groups = 5});
        }
    }
    return list;
}

// The cost of the chosen plan never falls with more work, with these tolerances:
// - what counts as no difference (choose.h);
// - 17 % that rows of k save where they are multiples of 32 bytes, because neighbours then share reads;
// - 3 % by which a cheap last row of tiles is believed to be too cheap.
TEST(Cost, MoreWorkNeverTakesLess) {
    const std::vector<std::int64_t> sizes{1, 7, 8, 31, 64, 65, 127, 128, 129, 200, 512, 1024, 1025, 3000, 8192, 40000};
    tests::Sample sample(23);
    for (const ProblemSizes& base : bases()) {
        if (!sample.takes_next()) continue;
        for (std::int64_t ProblemSizes::*size : {&ProblemSizes::m, &ProblemSizes::n, &ProblemSizes::k}) {
            double before = 0;
            std::int64_t products = 0;
            for (std::int64_t value : sizes) {
                ProblemSizes next = base;
                next.*size = value;
                // The same rows in more groups, of which each has fewer, may take less.
                if (std::exchange(products, workload(problem_of(next)).products) != products) before = 0;
                const double now = predicted(next);
                const double aligned = next.k % 32 == 0 ? 1.17 : 1.03;
                ASSERT_GE(now * no_difference * aligned, before)
                    << name(base.grouping) << " " << name(base.recipe) << " m " << next.m << " n " << next.n << " k "
                    << next.k;
                before = now;
            }
        }
    }
}

// Every legal tile by itself, not only the best of each size.
TEST(Cost, EveryTileIsMonotone) {
    const Workload small = workload(problem_of(dense(1024, 2112, 1536)));
    for (const ProblemSizes& sizes : {dense(1025, 2112, 1536), dense(1024, 2113, 1536), dense(1024, 2112, 1537),
                                      dense(4096, 2112, 1536), dense(1024, 7168, 1536), dense(1024, 2112, 7168)}) {
        const Workload large = workload(problem_of(sizes));
        for (const hopper::Kernel& tile : candidates(shapeless_kernel(small))) {
            if (why_illegal(tile, small, h200()) || why_illegal(tile, large, h200())) continue;
            // 12 %: a new row of tiles, nearly empty, lowers the bytes that a tile loads in the mean.
            ASSERT_GE(cost(tile, large, h200()).seconds * 1.12, cost(tile, small, h200()).seconds)
                << name(planned_tile(tile)) << " m " << sizes.m << " n " << sizes.n << " k " << sizes.k;
        }
    }
}

TEST(Cost, TermsAddUp) {
    for (const ProblemSizes& sizes : {dense(4096, 7168, 2048), dense(64, 2112, 7168), dense(1024, 2112, 7168),
                                      dense(1, 1, 1), dense(128, 7168, 16384)}) {
        for (const Plan& plan : explain(problem_of(sizes)).legal) {
            const Cost& c = plan.cost;
            const double near = 1e-9 * c.seconds;
            ASSERT_NEAR(c.seconds, c.launch + std::max(c.memory, c.compute) + c.overlap + c.reduction, near);
            ASSERT_NEAR(c.compute, c.tensor + c.promotion + c.delivery + c.epilogue + c.waves, near);
            for (double term : {c.launch, c.memory, c.compute, c.tensor, c.promotion, c.delivery, c.epilogue, c.waves,
                                c.overlap, c.reduction}) {
                ASSERT_GE(term, -near) << plan.tile;
            }
            ASSERT_GT(c.clock_hertz, 1.1e9);
            ASSERT_LE(c.clock_hertz, h200().boost_hertz);
        }
    }
}

// Counted by hand:
// - in: 4096 x 2048 and 7168 x 2048 bytes, f32 scales of 4096 x 16 and 56 x 16;
// - out: 4096 x 7168 x 2.
TEST(Cost, BytesAreTheCompulsoryOnes) {
    const Cost c = plan(problem_of(dense(4096, 7168, 2048))).cost;
    EXPECT_EQ(c.memory_bytes, 4096 * 2048 + 7168 * 2048 + 4 * (4096 * 16 + 56 * 16) + 4096 * 7168 * 2);
}

// 64x64 takes 492 us on an H200, 128x128 299.
TEST(Choice, GradientsTakeNoSmallTileForTheirD) {
    ProblemSizes sizes = dense(32768, 4096, 512);
    sizes.recipe = recipe_named("1x128:1x128");
    Problem problem = problem_of(sizes);
    problem.d.format = Format::f32;
    problem.c = problem.d;
    EXPECT_EQ(planned_tile(plan(problem)).shape.m, 128);
}

TEST(Choice, IsTheCheapestThatShipsOrNearlyAndLoadsFewerBytes) {
    for (const ProblemSizes& sizes : {dense(4096, 7168, 2048), dense(1, 4096, 4096), dense(77, 24, 130)}) {
        const Explanation explanation = explain(problem_of(sizes), h200(), {});  // no tuned row
        const Workload work = workload(problem_of(sizes));
        Cost least{.seconds = std::numeric_limits<double>::infinity()};
        std::size_t legal = 0;
        std::size_t rejected = 0;
        for (const hopper::Kernel& tile : candidates(shapeless_kernel(work))) {
            if (why_illegal(tile, work, h200()) || variant(work.geometry, tile).cluster != tile.cluster) {
                ++rejected;
                continue;
            }
            ++legal;
            if (const Cost now = cost(tile, work, h200()); ships(tile) && now.seconds < least.seconds) least = now;
        }
        const Cost& chosen = explanation.chosen->cost;
        EXPECT_LE(chosen.seconds, least.seconds * no_difference);
        EXPECT_LE(chosen.l2_bytes, least.l2_bytes);
        EXPECT_EQ(explanation.legal.size(), legal);
        EXPECT_EQ(explanation.rejected.size(), rejected);
        EXPECT_TRUE(std::is_sorted(explanation.legal.begin(), explanation.legal.end(),
                                   [](const auto& a, const auto& b) { return a.cost.seconds < b.cost.seconds; }));
        for (const RejectedTile& tile : explanation.rejected) EXPECT_FALSE(tile.rule.empty() || tile.reason.empty());
    }
}

TEST(Choice, IsTheSameEveryTime) {
    const Problem problem = problem_of(dense(1024, 2112, 7168));
    const Explanation first = explain(problem);
    const Explanation second = explain(problem);
    ASSERT_EQ(first.legal.size(), second.legal.size());
    for (std::size_t i = 0; i < first.legal.size(); ++i) {
        ASSERT_EQ(first.legal[i].tile, second.legal[i].tile);
        ASSERT_EQ(first.legal[i].cost.seconds, second.legal[i].cost.seconds);
    }
    EXPECT_EQ(plan(problem).tile, first.chosen->tile);
}

TEST(Choice, EmptyProblemsLaunchNothing) {
    for (const ProblemSizes& base : bases()) {
        for (std::int64_t ProblemSizes::*size : {&ProblemSizes::m, &ProblemSizes::n, &ProblemSizes::groups}) {
            if (size == &ProblemSizes::groups && base.grouping == Grouping::dense) continue;
            ProblemSizes sizes = base;
            sizes.*size = 0;
            const Plan empty = plan(problem_of(sizes));
            EXPECT_EQ(empty.grid, 0) << name(sizes.grouping);
            EXPECT_EQ(empty.cost.seconds, 0);
        }
        ProblemSizes no_k = base;
        no_k.k = 0;  // D is still C, or zeros
        EXPECT_GT(plan(problem_of(no_k)).grid, 0) << name(no_k.grouping);
    }
}

TEST(Choice, TakesSizesOfAnyMagnitude) {
    constexpr std::int64_t huge = std::int64_t{1} << 30;
    for (Grouping grouping : planned_groupings) {
        for (const auto& [m, n, k] : {std::array{huge, huge, std::int64_t{1}}, std::array{std::int64_t{1}, huge, huge},
                                      std::array<std::int64_t, 3>{1, 1, 1}, std::array{huge, huge, huge}}) {
            const ProblemSizes sizes{.grouping = grouping, .recipe = block_scaled, .m = m, .n = n, .k = k, .groups = 3};
            const Plan chosen = plan(problem_of(sizes));
            EXPECT_TRUE(std::isfinite(chosen.cost.seconds) && chosen.cost.seconds > 0) << name(grouping);
            EXPECT_GE(chosen.tiles, 1);
            const hopper::Kernel tile =
                device_tile(planned_tile(chosen), shapeless_kernel(workload(problem_of(sizes))));
            EXPECT_LE(chosen.grid, h200().sms * hopper::Design(tile).blocks_per_sm);
        }
    }
}

TEST(Choice, HasBlocksForAsManySmsAsAClusterTakes) {
    for (int limit = 1; limit <= 8; ++limit) {
        ProblemSizes sizes = dense(64, 2112, 7168);
        sizes.sm_limit = limit;
        const Plan chosen = plan(problem_of(sizes));
        EXPECT_GT(chosen.grid, 0) << limit << " SMs";
        EXPECT_GT(chosen.cost.compute, 0) << limit << " SMs";
    }
}

TEST(Choice, StaysWithinTheSmLimit) {
    double before = std::numeric_limits<double>::infinity();
    for (int limit : {1, 2, 3, 16, 77, 132}) {
        ProblemSizes sizes = dense(4096, 7168, 2048);
        sizes.sm_limit = limit;
        const Plan limited = plan(problem_of(sizes));
        EXPECT_LE(limited.grid, limit);
        EXPECT_LE(limited.cost.seconds, before) << limit << " SMs";  // 132 may take as many waves as 131
        before = limited.cost.seconds;
    }
    ProblemSizes more = dense(4096, 7168, 2048);
    more.sm_limit = 1000;
    EXPECT_EQ(plan(problem_of(more)).cost.seconds, before);
}

// Rows of m that are expected to belong to no group are not planned for: the plan is that of a problem without them.
TEST(Choice, ExpectsFewerRowsThanThereIsRoomFor) {
    for (const Grouping grouping :
         {Grouping::m_grouped_offsets, Grouping::m_grouped_indices, Grouping::m_grouped_aligned_offsets}) {
        ProblemSizes all{.grouping = grouping, .recipe = block_scaled, .m = 4096, .n = 4096, .k = 2048, .groups = 64};
        const double seconds = plan(problem_of(all)).cost.seconds;
        ProblemSizes half = all;
        half.expected_m = 32;
        const Plan hinted = plan(problem_of(half));
        EXPECT_LT(hinted.cost.seconds, seconds) << name(grouping);
        if (grouping == Grouping::m_grouped_offsets) {
            all.m = 2048;
            const Plan without = plan(problem_of(all));
            EXPECT_EQ(planned_tile(hinted), planned_tile(without));
            EXPECT_EQ(hinted.cost.seconds, without.cost.seconds);
        }
        all.m = 4096;
        all.expected_m = 4096;  // more than there is room for says nothing
        EXPECT_EQ(plan(problem_of(all)).cost.seconds, seconds) << name(grouping);
    }
}

// A hint changes what is expected, not what is allowed; rows of contiguous groups are divided evenly.
TEST(Choice, CountsTheTilesThatGroupsAreExpectedToHave) {
    ProblemSizes masked{.grouping = Grouping::m_grouped_masked,
                        .recipe = block_scaled,
                        .m = 1024,
                        .n = 4096,
                        .k = 7168,
                        .groups = 32,
                        .expected_m = 20};
    const Plan few = plan(problem_of(masked));
    const PlannedTile tile = planned_tile(few);
    EXPECT_LE(tile.swap_ab ? tile.shape.n : tile.shape.m, 64);
    const int columns = tile.swap_ab ? tile.shape.m : tile.shape.n;
    const std::int64_t of_a_token_tile = 32 * ((4096 + columns - 1) / columns);
    EXPECT_GE(few.tiles, of_a_token_tile) << "a tile of tokens for each group";
    EXPECT_LE(few.tiles, of_a_token_tile * 5 / 4) << "and a few more, because groups differ";
    masked.expected_m = 0;
    EXPECT_GT(plan(problem_of(masked)).cost.seconds, 4 * few.cost.seconds);

    ProblemSizes contiguous{
        .grouping = Grouping::m_grouped_offsets, .recipe = block_scaled, .m = 20, .n = 4096, .k = 7168, .groups = 256};
    const Workload work = workload(problem_of(contiguous));
    EXPECT_EQ(work.products, 20) << "20 rows reach 20 groups at most";
    EXPECT_EQ(work.rows, 1);
}

// One block of a cluster for each slice; clusters of 4 or 8 leave SMs without one.
TEST(Choice, SlicesTakeWholeClusters) {
    std::set<int> splits;
    ProblemSizes sizes = dense(64, 7168, 7168);
    for (const Plan& plan : explain(problem_of(sizes)).legal) {
        const PlannedTile tile = planned_tile(plan);
        const int blocks_of_cluster = tile.cluster.k_slices;
        if (blocks_of_cluster == 1) continue;
        EXPECT_EQ(plan.grid % blocks_of_cluster, 0);
        const hopper::Kernel kernel = device_tile(tile, shapeless_kernel(workload(problem_of(sizes))));
        const int blocks = hopper::Design(kernel).blocks_per_sm;
        EXPECT_LE(plan.grid, blocks * (blocks_of_cluster == 2 ? 132 : 120)) << plan.tile;
        EXPECT_GT(plan.cost.reduction, 0);
        splits.insert(blocks_of_cluster);
    }
    EXPECT_EQ(splits, (std::set<int>{2, 4, 8}));
}

TEST(Choice, WithoutAKernelPlanThrowsWhatExplainSays) {
    ProblemSizes sizes = dense(64, 256, 256);
    sizes.recipe = unscaled_bf16;
    try {
        (void)plan(problem_of(sizes));
        FAIL() << "planned a recipe that no kernel has";
    } catch (const Error& error) {
        ASSERT_EQ(error.findings().size(), 2U);
        EXPECT_EQ(error.findings()[0].operand, "a");
    }
}

TEST(Choice, PackingAtEachCallCostsItsBytesAndChangesNoTile) {
    ProblemSizes sizes = dense(16, 4096, 2048);
    sizes.recipe = parse_recipe("1x128:mxfp4").value();
    const Problem problem = problem_of(sizes);
    const Plan at_each_call = plan(problem), before = plan(with_packed_shape(problem, 0));
    EXPECT_EQ(at_each_call.tile, before.tile);
    EXPECT_TRUE(at_each_call.has_wide_rows);
    // Scales, and for each 64 x 128 weights what they are in a tile.
    EXPECT_GT(at_each_call.cost.preparation_bytes, 4096 * 2048 / 32 + 64 * 16 * 528);
    EXPECT_LT(at_each_call.cost.preparation_bytes, 4096 * 2048 / 2) << "codes stay where they are";
    EXPECT_EQ(planned_k_splits(problem, h200()), planned_k_splits(with_packed_shape(problem, 0), h200()));
    Problem odd = problem;
    odd.b.values.strides[0] += 2;  // rows of codes begin at any byte
    const Plan packed = plan(odd);
    EXPECT_EQ(packed.tile, before.tile);
    EXPECT_TRUE(packed.has_wide_rows);
    EXPECT_GT(packed.cost.preparation_bytes, 3 * 4096 * 2048 / 2);
    EXPECT_GT(packed.cost.seconds, before.cost.seconds + 4096 * 2048 * 1.5 / h200().memory_bytes_per_second);
    EXPECT_GT(packed.cost.preparation, 3 * at_each_call.cost.preparation);
}

TEST(Choice, ACopyCostsItsBytesAndALaunchAndChangesNoTile) {
    ProblemSizes sizes = dense(1024, 4096, 2048);
    sizes.layout = Layout::nn;
    const Plan as_it_is = plan(problem_of(sizes));
    EXPECT_EQ(as_it_is.cost.preparation, 0);
    sizes.layout = Layout::tn;  // A is the smaller one: the product is that of layout nn
    const Plan copied = plan(problem_of(sizes));
    EXPECT_EQ(copied.tile, as_it_is.tile);
    EXPECT_EQ(copied.cost.preparation_bytes, 2 * 1024 * 2048);
    EXPECT_EQ(copied.cost.memory_bytes, as_it_is.cost.memory_bytes);
    const double seconds =
        2 * 1024 * 2048 / h200().memory_bytes_per_second + h200().start_seconds + h200().launch_seconds;
    EXPECT_DOUBLE_EQ(copied.cost.preparation, seconds);
    EXPECT_DOUBLE_EQ(copied.cost.seconds, as_it_is.cost.seconds + seconds);
}

}  // namespace
}  // namespace tilewright::planner
