// Where k is split: by the tile's rule, and for a problem as its plan says.
#include "plan/choose.h"

#include <gtest/gtest.h>

#include <set>

#include "formats/packed_layout.h"
#include "hopper/description/design.h"
#include "plan/problems.h"
#include "plan/variant.h"
#include "plan/workload.h"
#include "problem/packed_problem.h"
#include "problem/workspace_plan.h"

namespace tilewright::planner {
namespace {

TEST(KSplits, AreMultiplesOfAStageThatDivideKEvenly) {
    EXPECT_TRUE(k_splits({}, 1000).empty());
    EXPECT_EQ(k_splits({.cluster = {.k_slices = 4}}, 1000), (std::vector<std::int64_t>{256, 512, 768}));
    EXPECT_EQ(k_splits({.cluster = {.k_slices = 2}}, 7168), (std::vector<std::int64_t>{3584}));
    EXPECT_EQ(k_splits({.cluster = {.k_slices = 8}}, 3 * 128),
              (std::vector<std::int64_t>{0, 0, 128, 128, 128, 256, 256}));
}

TEST(KSplits, OfAProblemAreThoseOfTheTileThatRuns) {
    for (const std::int64_t m : {1, 64, 4096}) {
        const Problem problem = problem_of(dense(m, 2112, 7168));
        const Workload work = workload(problem);
        const hopper::Kernel tile = device_tile(planned_tile(plan(problem)), shapeless_kernel(work));
        EXPECT_EQ(planned_k_splits(problem, h200()), k_splits(tile, 7168)) << m;
    }
    ProblemSizes bf16 = dense(64, 256, 256);
    bf16.recipe = unscaled_bf16;
    EXPECT_TRUE(planned_k_splits(problem_of(bf16), h200()).empty()) << "no kernel, no plan";
}

/// A row's bits must not depend on whether another row is wide, so that the same tile runs, in its kernel for windows.
TEST(KSplits, WideRowsOfPackedWeightsChangeNoChoice) {
    int split = 0;
    for (const char* recipe : {"1x128:mxfp4", "row:mxfp4", "mxfp8:mxfp4"}) {
        for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_masked, Grouping::m_grouped_offsets}) {
            for (const std::int64_t m : {1, 16, 33, 64, 100, 500}) {
                for (const std::int64_t n : {576, 2112, 7168}) {
                    const Problem ordinary = problem_of({.grouping = grouping,
                                                         .recipe = parse_recipe(recipe).value(),
                                                         .m = m,
                                                         .n = n,
                                                         .k = 7168,
                                                         .groups = grouping == Grouping::dense ? 1 : 8});
                    const Problem uniform = with_packed_shape(ordinary, 0);
                    const std::vector<std::int64_t> splits = planned_k_splits(ordinary, h200());
                    split += splits.empty() ? 0 : 1;
                    const Plan expected = plan(uniform);
                    EXPECT_FALSE(expected.has_wide_rows);
                    for (const int windows : {1, 2, 4}) {
                        const Problem wide = with_packed_shape(ordinary, windows);
                        const Plan given = plan(wide);
                        EXPECT_TRUE(given.has_wide_rows);
                        EXPECT_EQ(given.tile, expected.tile) << m << ", " << n;
                        EXPECT_LE(given.shared_bytes, hopper::shared_bytes_limit);
                        EXPECT_EQ(planned_k_splits(wide, h200()), splits);
                        const Geometry g = geometry(wide);
                        const hopper::Kernel tile = chosen_tile(wide, gpu_call(g), h200());
                        EXPECT_EQ(k_splits(tile, 7168), splits);
                        EXPECT_TRUE(hopper::Design(variant(g, tile)).feed == hopper::FeedKind::windowed);
                        EXPECT_TRUE(can_run(g, variant(g, tile)));
                        EXPECT_FALSE(can_run(g, tile)) << "a kernel without windows";
                    }
                }
            }
        }
    }
    EXPECT_GT(split, 0);
}

TEST(KSplits, WideRowsForBf16ChangeNoChoice) {
    for (const char* recipe : {"bf16:mxfp4", "nvfp4:mxfp4"}) {
        for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_masked, Grouping::m_grouped_offsets}) {
            for (const std::int64_t m : {1, 16, 33, 64, 500}) {
                const Problem ordinary = problem_of({.grouping = grouping,
                                                     .recipe = parse_recipe(recipe).value(),
                                                     .m = m,
                                                     .n = 2112,
                                                     .k = 7168,
                                                     .groups = grouping == Grouping::dense ? 1 : 8});
                const Problem uniform = with_packed_shape(ordinary, 0);
                Problem wide = uniform;
                wide.b.packed.internal = formats::PackedInternal{.wide_row = 5}.words();
                const Plan expected = plan(uniform);
                for (const Problem& problem : {wide, ordinary}) {
                    EXPECT_EQ(plan(problem).tile, expected.tile) << recipe << " " << m;
                    EXPECT_LE(plan(problem).shared_bytes, hopper::shared_bytes_limit);
                    EXPECT_EQ(planned_k_splits(problem, h200()), planned_k_splits(uniform, h200()));
                    const Geometry g = geometry(problem);
                    const Geometry product = after_workspace(g, workspace_plan(g), nullptr);
                    const hopper::Kernel tile = chosen_tile(problem, gpu_call(g), h200());
                    EXPECT_TRUE(variant(product, tile).wide_rows);
                    EXPECT_TRUE(can_run(product, variant(product, tile)));
                    EXPECT_FALSE(can_run(product, tile)) << "the kernel of other rows";
                }
                const Geometry g = after_workspace(geometry(uniform), workspace_plan(geometry(uniform)), nullptr);
                EXPECT_FALSE(variant(g, chosen_tile(uniform, gpu_call(uniform), h200())).wide_rows);
            }
        }
    }
}

TEST(KSplits, AreThoseOfPackedWeightsForBf16) {
    int split = 0;
    for (const char* recipe :
         {"bf16:mxfp4", "bf16:nvfp4", "nvfp4:mxfp4", "nvfp4:nvfp4", "1x128:nvfp4", "e5m2.row:nvfp4"}) {
        for (const std::int64_t m : {1, 16, 33, 500}) {
            const Problem ordinary =
                problem_of({.recipe = parse_recipe(recipe).value(), .m = m, .n = 7168, .k = 16384});
            const Problem packed = with_packed_shape(ordinary, 0);
            const std::vector<std::int64_t> splits = planned_k_splits(ordinary, h200());
            EXPECT_EQ(planned_k_splits(packed, h200()), splits);
            const Geometry g = geometry(packed);
            const hopper::Kernel tile = chosen_tile(packed, gpu_call(g), h200());
            const Geometry product = after_workspace(g, workspace_plan(g), nullptr);
            EXPECT_EQ(k_splits(tile, 16384), splits);
            EXPECT_TRUE(can_run(product, variant(product, tile)));
            EXPECT_TRUE(tile.order.step == StepKind::bf16);
            split += splits.empty() ? 0 : 1;
        }
    }
    EXPECT_GT(split, 0);
}

/// Two calls with the same numbers have the same bits, in whatever order their memory has them.
TEST(KSplits, OfFp4WeightsAreThoseOfPackedOnesInAnyLayout) {
    for (const char* recipe : {"1x128:mxfp4", "mxfp8:mxfp4", "mxfp4:mxfp4", "nvfp4:mxfp4", "nvfp4:nvfp4",
                               "1x128.ue8m0:nvfp4", "tensor:nvfp4"}) {
        for (const std::int64_t m : {1, 16, 500}) {
            ProblemSizes sizes{.recipe = parse_recipe(recipe).value(), .m = m, .n = 2112, .k = 7168};
            const std::vector<std::int64_t> splits = planned_k_splits(with_packed_shape(problem_of(sizes), 0), h200());
            for (const Layout layout : all_layouts) {
                sizes.layout = layout;
                EXPECT_EQ(planned_k_splits(problem_of(sizes), h200()), splits) << recipe << m << " " << name(layout);
            }
        }
    }
}

TEST(KSplits, Mxfp4ActivationsHaveTheTilesOfMxfp8) {
    for (const std::int64_t m : {1, 16, 64, 500}) {
        ProblemSizes sizes{.recipe = parse_recipe("mxfp4:mxfp4").value(), .m = m, .n = 2112, .k = 7168};
        const Plan decoded = plan(problem_of(sizes));
        sizes.recipe.a.values = Format::e4m3;
        EXPECT_EQ(decoded.tile, plan(problem_of(sizes)).tile) << m;
        EXPECT_TRUE(decoded.has_wide_rows) << "of weights that are packed at each call anything is possible";
    }
}

// A device's description makes the CPU follow that device, and a GPU plan with it. Whatever the number of SMs, both
// split k at the same positions. Where devices differ, the promised bits differ too.
TEST(KSplits, OfEveryDeviceAreThoseThatItsLaunchesUse) {
    std::set<std::vector<std::vector<std::int64_t>>> answers;
    int split = 0;
    for (const DeviceDescription& device : known_devices()) {
        std::vector<std::vector<std::int64_t>> of_device;
        for (const std::int64_t m : {1, 8, 16, 32, 48, 64, 100, 128}) {
            for (const auto& [n, k] : {std::pair{2112, 7168}, {4096, 7168}, {4096, 8192}, {1280, 8192}, {7168, 2304}}) {
                const Problem problem = problem_of(dense(m, n, k));
                const Geometry g = geometry(problem);
                const hopper::Kernel tile = variant(g, chosen_tile(problem, gpu_call(g), device));
                of_device.push_back(planned_k_splits(problem, device));
                EXPECT_EQ(of_device.back(), k_splits(tile, k)) << device.name << " " << m << " " << n << " " << k;
                split += tile.cluster.k_slices > 1 ? 1 : 0;
            }
        }
        answers.insert(of_device);
    }
    EXPECT_GT(split, 50);
    EXPECT_GT(answers.size(), 2U) << "devices split alike: this test says nothing";
}

}  // namespace
}  // namespace tilewright::planner
