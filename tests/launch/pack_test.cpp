// The pack holds tiles that can be built, each once, those that the planner wants among them, and the names of tiles
// tell them apart.
#include "plan/pack.h"
#include "plan/shipped_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "launch/tile_code.h"
#include "plan/legality.h"
#include "plan/tsv.h"
#include "plan/tuned.h"
#include "problem/packed_problem.h"
#include "problem/problem_sizes.h"

namespace tilewright::planner {
namespace {

TEST(Pack, TilesAreDifferentAndFew) {
    std::set<std::string> names;
    for (const hopper::Tile& tile : pack()) names.insert(launch::kernel_expression(tile));
    EXPECT_EQ(names.size(), pack().size());
    EXPECT_GT(names.size(), 0U);
    EXPECT_LE(names.size(), most_kernels);
}

TEST(Pack, TilesCanBeBuilt) {
    Workload work;
    work.rows = work.columns = work.k = 8192;
    work.products = 1;
    for (const hopper::Tile& tile : pack()) {
        const auto objection = why_illegal(tile, work, h200());
        EXPECT_FALSE(objection.has_value()) << launch::kernel_expression(tile) << ": " << objection->reason;
    }
}

/// Whether the kernel ships that the planner wants for this problem: the fast one, where there are any.
testing::AssertionResult ships(const Problem& problem, const PlannedTile& tile) {
    const hopper::Tile family = family_tile(describe(problem));
    hopper::Tile wanted = device_tile(tile, family);
    wanted.variant = multiplies_bf16(family) ? hopper::Variant::general : hopper::Variant::fast;
    const std::vector<hopper::Tile> list = pack();
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
                const hopper::Tile family = family_tile(describe(problem));
                hopper::Tile wanted = device_tile(planned_tile(plan(problem)), family);
                wanted.variant = multiplies_bf16(family) ? hopper::Variant::general : hopper::Variant::fast;
                const std::vector<hopper::Tile> list = pack();
                EXPECT_EQ(has_packed_weights(family), packed);
                EXPECT_NE(std::ranges::find(list, wanted), list.end()) << launch::describe(wanted);
            }
        }
    }
}

TEST(Pack, HoldsWhatThePlannerPicksForThePeersShapes) {
    std::ifstream file(TILEWRIGHT_PEERS);
    int shapes = 0;
    for (std::string line; std::getline(file, line);) {
        const nlohmann::json row = nlohmann::json::parse(line);
        if (row["op"] != "dense") continue;
        const auto shape = row["shape"].get<std::vector<std::int64_t>>();
        const ProblemSizes sizes{
            .recipe = parse_recipe("1x128:128x128").value(), .m = shape[0], .n = shape[1], .k = shape[2]};
        EXPECT_TRUE(ships(problem_of(sizes), planned_tile(plan(problem_of(sizes))))) << line;
        ++shapes;
    }
    EXPECT_GE(shapes, 25);
}

TEST(TileCode, EveryFieldIsInTheName) {
    using hopper::Tile;
    using hopper::Variant;
    const std::vector<Tile> variants{Tile{},
                                     {.shape = {.m = 64}},
                                     {.shape = {.n = 64}},
                                     {.shape = {.k = 64}},
                                     {.shape = {.warpgroups = 3}},
                                     {.stages = 5},
                                     {.swap_ab = true},
                                     {.cluster = hopper::share_a(2)},
                                     {.cluster = hopper::share_b(2)},
                                     {.cluster = hopper::split_k(2)},
                                     {.cluster = hopper::split_k(4)},
                                     {.a = {.storage = hopper::Storage::e5m2}},
                                     {.b = {.storage = hopper::Storage::e5m2}},
                                     {.b = {.storage = hopper::Storage::packed_e2m1}},
                                     {.b = {.storage = hopper::Storage::windowed_e2m1}},
                                     {.a = {.storage = hopper::Storage::bf16}},
                                     {.b = {.storage = hopper::Storage::packed_mxfp4_bf16}},
                                     {.b = {.storage = hopper::Storage::packed_nvfp4_bf16}},
                                     {.a = {.scaling = hopper::Scaling::block_1x128}},
                                     {.b = {.scaling = hopper::Scaling::block_1x128}},
                                     {.a = {.major = hopper::Major::mn}},
                                     {.b = {.major = hopper::Major::mn}},
                                     {.mma = {.promoted = false}},
                                     {.family = hopper::Family::m_grouped},
                                     {.variant = Variant::fast},
                                     {.variant = Variant::fast_k_major_scales},
                                     {.variant = Variant::fast_f32},
                                     {.debug = {.every_lane_arrives = true}}};
    std::set<std::string> names;
    for (const Tile& tile : variants) names.insert(launch::kernel_expression(tile));
    EXPECT_EQ(names.size(), variants.size());
}

TEST(TileCode, IsAnInstantiationInFullWords) {
    EXPECT_EQ(launch::kernel_expression({.shape = {.m = 256}, .a = {.scaling = hopper::Scaling::block_1x128}}),
              "tilewright::hopper::gemm<tilewright::hopper::Tile{.shape = {.m = 256, .n = 128, .k = 128, .warpgroups "
              "= 2}, .stages = 4, .swap_ab = false, .cluster = {.use = tilewright::hopper::ClusterUse(0), .size = 1}, "
              ".a = {.storage = tilewright::hopper::Storage(0), .scaling = tilewright::hopper::Scaling(2), "
              ".major = tilewright::hopper::Major(0)}, "
              ".b = {.storage = tilewright::hopper::Storage(0), .scaling = tilewright::hopper::Scaling(1), "
              ".major = tilewright::hopper::Major(0)}, "
              ".mma = {.promoted = true}, .family = tilewright::hopper::Family(0), "
              ".variant = tilewright::hopper::Variant(0)}>");
}

}  // namespace
}  // namespace tilewright::planner
