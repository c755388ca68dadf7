// Which of tiles with nearly the same predicted time is chosen.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "plan/choose.h"

namespace tilewright::planner {
namespace {

TEST(Choice, NearTiesGoToFewerBytesWhereMemoryIsNotTheBound) {
    const auto priced = [](int m, double seconds, std::int64_t bytes) {
        return PricedTile{.tile = {.shape = {.m = m}},
                          .cost = {.seconds = seconds, .compute = seconds, .l2_bytes = bytes}};
    };
    std::vector<PricedTile> tiles{priced(64, 1.009, 8), priced(128, 1, 10), priced(192, 1.005, 9),
                                  priced(256, 1.02, 1)};
    EXPECT_EQ(best_of(tiles, true).tile.shape.m, 64);
    tiles[1].cost.memory = tiles[1].cost.compute;
    EXPECT_EQ(best_of(tiles, false).tile.shape.m, 128);
}

TEST(Choice, NearTiesGoToTheSmallestTileWhereMemoryIsTheBoundAndDIsMuchOfIt) {
    const auto priced = [](int m, double seconds) {
        return PricedTile{.tile = {.shape = {.m = m}}, .cost = {.seconds = seconds, .memory = seconds}};
    };
    const std::vector<PricedTile> tiles{priced(256, 1), priced(128, 1.018), priced(192, 1.015), priced(64, 1.03)};
    EXPECT_EQ(best_of(tiles, true).tile.shape.m, 128);
    EXPECT_EQ(best_of(tiles, false).tile.shape.m, 256);
}

TEST(Choice, TiesGoToFewerStages) {
    const auto priced = [](int stages) {
        return PricedTile{.tile = {.stages = stages}, .cost = {.seconds = 1, .memory = 1}};
    };
    EXPECT_EQ(best_of({priced(12), priced(8), priced(10)}, false).tile.stages, 8);
}

}  // namespace
}  // namespace tilewright::planner
