// The pack holds tiles that can be built, each once, those that the planner wants among them, and the names of tiles
// tell them apart.
#include "plan/shipped_kernels.h"
#include "plan/shipped_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "kernel_of_recipe.h"
#include "launch/kernels.h"
#include "plan/legality.h"
#include "plan/tsv.h"
#include "plan/tuned.h"
#include "problem/packed_problem.h"
#include "problem/problem_sizes.h"

namespace tilewright::planner {
namespace {

TEST(Pack, TilesAreDifferentAndFew) {
    std::set<std::string> names;
    for (const hopper::Kernel& tile : shipped_kernels()) names.insert(launch::kernel_expression(tile));
    EXPECT_EQ(names.size(), shipped_kernels().size());
    EXPECT_GT(names.size(), 0U);
    EXPECT_LE(names.size(), most_kernels);
}

TEST(Pack, TilesCanBeBuilt) {
    Workload work;
    work.rows = work.columns = work.k = 8192;
    work.products = 1;
    for (const hopper::Kernel& tile : shipped_kernels()) {
        const auto objection = why_illegal(tile, work, h200());
        EXPECT_FALSE(objection.has_value()) << launch::kernel_expression(tile) << ": " << objection->reason;
    }
}

/// The kernel of `tile` that serves most calls: the one for D of bf16, where there are any.
hopper::Kernel usual_kernel(const Problem& problem, const PlannedTile& tile) {
    hopper::Kernel kernel = device_tile(tile, shapeless_kernel(workload(problem)));
    if (kernel.order.step == StepKind::fp8) kernel.output = hopper::Output::bf16_by_tma;
    return kernel;
}

/// Whether the kernel ships that the planner wants for this problem.
testing::AssertionResult ships(const Problem& problem, const PlannedTile& tile) {
    const hopper::Kernel wanted = usual_kernel(problem, tile);
    const std::vector<hopper::Kernel> list = shipped_kernels();
    if (std::ranges::find(list, wanted) != list.end()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the pack lacks " << launch::describe(wanted);
}

TEST(Pack, HoldsTheTunedRowsTiles) {
    ASSERT_FALSE(tuned_rows().empty());
    for (const TunedRow& row : tuned_rows()) {
        const std::vector<std::string_view> words = split(row.problem, ' ');
        const bool unpromoted = row.problem.find("accumulation=unpromoted") != std::string::npos;
        const auto is_named = [&](Grouping grouping) { return name(grouping) == words.at(0); };
        const auto* const grouping = std::ranges::find_if(all_groupings, is_named);
        ASSERT_NE(grouping, all_groupings.end()) << row.problem;
        const ProblemSizes sizes{.grouping = *grouping,
                                 .recipe = parse_recipe(words.at(1)).value(),
                                 .m = 1,
                                 .n = 1,
                                 .k = 1,
                                 .accumulation = unpromoted ? Accumulation::unpromoted : Accumulation::promoted};
        const bool packed = row.problem.ends_with(" packed");
        const Problem problem = packed ? with_packed_shape(problem_of(sizes), 0) : problem_of(sizes);
        EXPECT_TRUE(ships(problem, row.tile)) << row.problem;
    }
}

/// Calls with packed weights, and calls with others, get only kernels of that kind.
TEST(Pack, HoldsWhatThePlannerPicksForPackedWeights) {
    for (const char* recipe : {"1x128:mxfp4", "row:mxfp4", "row:row", "bf16:mxfp4"}) {
        for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_masked}) {
            for (const std::int64_t m : {1, 16, 40, 300}) {
                Problem problem = problem_of({.grouping = grouping,
                                              .recipe = parse_recipe(recipe).value(),
                                              .m = m,
                                              .n = 7168,
                                              .k = 2048,
                                              .groups = grouping == Grouping::dense ? 1 : 32});
                const bool packed = takes_packed_weights(problem);
                if (packed) problem = with_packed_shape(problem, 0);
                const hopper::Kernel wanted = usual_kernel(problem, planned_tile(plan(problem)));
                const std::vector<hopper::Kernel> list = shipped_kernels();
                EXPECT_EQ(wanted.b.is_packed(), packed);
                EXPECT_NE(std::ranges::find(list, wanted), list.end()) << launch::describe(wanted);
            }
        }
    }
}

/// The dense shapes of benchmarks/peers/shapes.tsv.
TEST(Pack, HoldsWhatThePlannerPicksForThePeersShapes) {
    std::ifstream file(TILEWRIGHT_PEERS);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const Tsv table = parse_tsv(text, {"suite", "op", "shape"});
    EXPECT_TRUE(table.problems.empty());
    int shapes = 0;
    for (const TsvRow& row : table.rows) {
        if (row.cells[1] != "dense") continue;
        std::istringstream words{std::string(row.cells[2])};
        ProblemSizes sizes{.recipe = parse_recipe("1x128:128x128").value()};
        ASSERT_TRUE(words >> sizes.m >> sizes.n >> sizes.k) << row.cells[2];
        EXPECT_TRUE(ships(problem_of(sizes), planned_tile(plan(problem_of(sizes))))) << row.cells[2];
        ++shapes;
    }
    EXPECT_GT(shapes, 0);
}

TEST(TileCode, EveryFieldIsInTheName) {
    using hopper::Form;
    using hopper::Groups;
    using hopper::Kernel;
    using hopper::Output;
    using hopper::ValueFormat;
    const std::vector<Kernel> kernels{Kernel{},
                                      {.shape = {.m = 64}},
                                      {.shape = {.n = 64}},
                                      {.shape = {.warpgroups = 3}},
                                      {.stages = 5},
                                      {.swap_ab = true},
                                      {.cluster = {.columns = 2}},
                                      {.cluster = {.rows = 2}},
                                      {.cluster = {.k_slices = 2}},
                                      {.cluster = {.k_slices = 4}},
                                      {.order = {.step = StepKind::bf16}},
                                      {.order = {.step = StepKind::fp8}},
                                      {.order = {.chain = 32}},
                                      {.order = {.a = ScaleUse::chains}},
                                      {.order = {.b = ScaleUse::chains}},
                                      {.order = {.b = ScaleUse::end}},
                                      {.order = {.folded = Folded::a}},
                                      {.order = {.folded = Folded::b}},
                                      {.order = {.defers = true}},
                                      {.a = {.values = ValueFormat::e5m2}},
                                      {.b = {.values = ValueFormat::e5m2}},
                                      {.a = {.values = ValueFormat::bf16}},
                                      {.b = {.values = ValueFormat::bf16}},
                                      {.a = {.form = Form::columns}},
                                      {.b = {.form = Form::columns}},
                                      {.b = {.form = Form::tiles}},
                                      {.b = {.form = Form::rows_and_tiles}},
                                      {.a = {.scale_rows = 0}},
                                      {.b = {.scale_rows = 128}},
                                      {.a = {.scale_k = 128}},
                                      {.b = {.scale_k = 16}},
                                      {.wide_rows = true},
                                      {.groups = Groups::rows},
                                      {.groups = Groups::k_aligned},
                                      {.groups = Groups::k_anywhere},
                                      {.output = Output::bf16_by_tma},
                                      {.output = Output::f32_by_tma},
                                      {.scales_along_k = true},
                                      {.debug = {.every_lane_arrives = true}},
                                      {.debug = {.stamps = true}}};
    std::set<std::string> names;
    for (const Kernel& kernel : kernels) names.insert(launch::kernel_expression(kernel));
    EXPECT_EQ(names.size(), kernels.size());
}

TEST(TileCode, IsAnInstantiationInFullWords) {
    EXPECT_EQ(launch::kernel_expression(tests::of_recipe("1x128:row", {.shape = {.m = 256}})),
              "tilewright::hopper::gemm<tilewright::hopper::Kernel{.shape = {.m = 256, .n = 128, .warpgroups = 2}, "
              ".stages = 4, .swap_ab = false, .cluster = {.rows = 1, .columns = 1, .k_slices = 1}, "
              ".order = {.step = tilewright::StepKind(0), .chain = 128, .a = tilewright::ScaleUse(1), "
              ".b = tilewright::ScaleUse(2), .folded = tilewright::Folded(0), .defers = true}, "
              ".a = {.values = tilewright::hopper::ValueFormat(0), .form = tilewright::hopper::Form(0), "
              ".scale_rows = 1, .scale_k = 128}, "
              ".b = {.values = tilewright::hopper::ValueFormat(0), .form = tilewright::hopper::Form(0), "
              ".scale_rows = 1, .scale_k = 0}, .wide_rows = false, .groups = tilewright::hopper::Groups(0), "
              ".output = tilewright::hopper::Output(0), .scales_along_k = false}>");
}

}  // namespace
}  // namespace tilewright::planner
