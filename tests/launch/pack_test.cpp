// The pack holds tiles that can be built, each once, and the names of tiles tell them apart.
#include "launch/pack.h"

#include <gtest/gtest.h>

#include <set>

#include "launch/tile_code.h"
#include "plan/legality.h"

namespace tilewright::launch {
namespace {

TEST(Pack, TilesAreDifferentAndFew) {
    std::set<std::string> names;
    for (const hopper::Tile& tile : pack()) names.insert(kernel_expression(tile));
    EXPECT_EQ(names.size(), pack().size());
    EXPECT_GT(names.size(), 0U);
    EXPECT_LE(names.size(), 200U);
}

TEST(Pack, TilesCanBeBuilt) {
    planner::Work work;
    work.rows = work.columns = work.k = 8192;
    work.products = 1;
    for (const hopper::Tile& tile : pack()) {
        const auto objection = planner::why_illegal(tile, work, h200());
        EXPECT_FALSE(objection.has_value()) << kernel_expression(tile) << ": " << objection->reason;
    }
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
                                     {.plain = true}};
    std::set<std::string> names;
    for (const Tile& tile : variants) names.insert(kernel_expression(tile));
    EXPECT_EQ(names.size(), variants.size());
}

TEST(TileCode, IsAnInstantiationInFullWords) {
    EXPECT_EQ(kernel_expression({.m = 256, .warpgroups = 2, .a_scaling = hopper::Scaling::row_128}),
              "tilewright::hopper::gemm<tilewright::hopper::Tile{.m = 256, .n = 128, .k = 128, .stages = 4, "
              ".cluster = 1, .multicast = tilewright::hopper::Multicast(0), .swap_ab = false, .split_k = 1, "
              ".warpgroups = 2, .a = tilewright::hopper::Storage(0), .b = tilewright::hopper::Storage(0), "
              ".a_scaling = tilewright::hopper::Scaling(2), .b_scaling = tilewright::hopper::Scaling(1), "
              ".promoted = true, .family = tilewright::hopper::Family(0), .plain = false}>");
}

}  // namespace
}  // namespace tilewright::launch
