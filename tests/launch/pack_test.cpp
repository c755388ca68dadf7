// The pack holds tiles that can be built, each once, those that the planner wants among them, and the names of tiles
// tell them apart.
#include "plan/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "launch/tile_code.h"
#include "plan/legality.h"
#include "plan/sizes.h"
#include "plan/tsv.h"
#include "plan/tuned.h"

namespace tilewright::planner {
namespace {

TEST(Pack, TilesAreDifferentAndFew) {
    std::set<std::string> names;
    for (const hopper::Tile& tile : pack()) names.insert(launch::kernel_expression(tile));
    EXPECT_EQ(names.size(), pack().size());
    EXPECT_GT(names.size(), 0U);
    EXPECT_LE(names.size(), 200U);
}

TEST(Pack, TilesCanBeBuilt) {
    Work work;
    work.rows = work.columns = work.k = 8192;
    work.products = 1;
    for (const hopper::Tile& tile : pack()) {
        const auto objection = why_illegal(tile, work, h200());
        EXPECT_FALSE(objection.has_value()) << launch::kernel_expression(tile) << ": " << objection->reason;
    }
}

/// Whether the plain kernel ships that the planner wants for this problem.
testing::AssertionResult ships(const Sizes& sizes, const PlannedTile& tile) {
    const Problem problem = problem_of(sizes);
    hopper::Tile wanted = device_tile(tile, family_tile(describe(problem)));
    wanted.plain = true;
    const std::vector<hopper::Tile> list = pack();
    if (std::ranges::find(list, wanted) != list.end()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the pack lacks " << launch::describe(wanted);
}

TEST(Pack, HoldsTheTunedRowsTiles) {
    ASSERT_FALSE(tuned_rows().empty());
    for (const TunedRow& row : tuned_rows()) {
        const std::vector<std::string_view> words = split(row.problem, ' ');
        const bool unpromoted = row.problem.find("accumulation=unpromoted") != std::string::npos;
        const Sizes sizes{.recipe = parse_recipe(words.at(1)).value(),
                          .m = 1,
                          .n = 1,
                          .k = 1,
                          .accumulation = unpromoted ? Accumulation::unpromoted : Accumulation::promoted};
        EXPECT_TRUE(ships(sizes, row.tile)) << row.problem;
    }
}

TEST(Pack, HoldsWhatThePlannerPicksForThePeersShapes) {
    std::ifstream file(TILEWRIGHT_PEERS);
    int shapes = 0;
    for (std::string line; std::getline(file, line);) {
        const nlohmann::json row = nlohmann::json::parse(line);
        if (row["op"] != "dense") continue;
        const auto shape = row["shape"].get<std::vector<std::int64_t>>();
        const Sizes sizes{.recipe = parse_recipe("1x128:128x128").value(), .m = shape[0], .n = shape[1], .k = shape[2]};
        EXPECT_TRUE(ships(sizes, plan(problem_of(sizes)).tile)) << line;
        ++shapes;
    }
    EXPECT_GE(shapes, 25);
}

TEST(TileCode, EveryFieldIsInTheName) {
    using hopper::Tile;
    const std::vector<Tile> variants{Tile{},
                                     {.m = 64},
                                     {.n = 64},
                                     {.k = 64},
                                     {.stages = 5},
                                     {.cluster = 2},
                                     {.multicast = hopper::Multicast::a},
                                     {.multicast = hopper::Multicast::b},
                                     {.swap_ab = true},
                                     {.split_k = 2},
                                     {.warpgroups = 3},
                                     {.a = hopper::Storage::e5m2},
                                     {.b = hopper::Storage::e5m2},
                                     {.a_scaling = hopper::Scaling::row_128},
                                     {.b_scaling = hopper::Scaling::row_128},
                                     {.promoted = false},
                                     {.family = hopper::Family::m_grouped},
                                     {.plain = true},
                                     {.scales_by_row = true},
                                     {.every_lane_arrives = true}};
    std::set<std::string> names;
    for (const Tile& tile : variants) names.insert(launch::kernel_expression(tile));
    EXPECT_EQ(names.size(), variants.size());
}

TEST(TileCode, IsAnInstantiationInFullWords) {
    EXPECT_EQ(launch::kernel_expression({.m = 256, .warpgroups = 2, .a_scaling = hopper::Scaling::row_128}),
              "tilewright::hopper::gemm<tilewright::hopper::Tile{.m = 256, .n = 128, .k = 128, .stages = 4, "
              ".cluster = 1, .multicast = tilewright::hopper::Multicast(0), .swap_ab = false, .split_k = 1, "
              ".warpgroups = 2, .a = tilewright::hopper::Storage(0), .b = tilewright::hopper::Storage(0), "
              ".a_scaling = tilewright::hopper::Scaling(2), .b_scaling = tilewright::hopper::Scaling(1), "
              ".promoted = true, .family = tilewright::hopper::Family(0), .plain = false, "
              ".scales_by_row = false, .every_lane_arrives = false}>");
}

}  // namespace
}  // namespace tilewright::planner
