// The main loop's model against the loops that were measured on an H200 (2026-11-21, operands from L2 by TMA, k-blocks
// of 128, "big" columns; where scale loads were pinned, that row).
#include "plan/loop.h"

#include <gtest/gtest.h>

#include <vector>

#include "hopper/tile/tile.h"

namespace tilewright::planner {
namespace {

using hopper::Scaling;

struct Measured {
    const char* name;
    hopper::Tile tile;
    double busy_percent;
    double tolerance;  // percentage points; more where the measured rows themselves scatter
};

double busy_percent(const hopper::Tile& tile) {
    const Loop rate = loop(tile);
    return 100 * rate.tensor_clocks / (rate.tensor_clocks + rate.stall_clocks);
}

hopper::Tile block_scaled(int m, int n, int warpgroups, bool swap = false) {
    return {.shape = {.m = m, .n = n, .warpgroups = warpgroups},
            .swap_ab = swap,
            .a = {.scaling = Scaling::block_1x128},
            .b = {.scaling = Scaling::block_128x128}};
}

hopper::Tile both_scaled(int m, int n, int warpgroups) {
    hopper::Tile tile = block_scaled(m, n, warpgroups);
    tile.b.scaling = Scaling::block_1x128;
    return tile;
}

hopper::Tile unpromoted(int m, int n) { return {.shape = {.m = m, .n = n}, .mma = {.promoted = false}}; }

TEST(Loop, IsWhatWasMeasured) {
    const std::vector<Measured> rows{
        {"256x128", block_scaled(256, 128, 2), 85.0, 1},
        // This library's kernels, by their times relative to that of 256x128 in one run.
        {"128x128", block_scaled(128, 128, 2), 85.0 * 801.6 / 857.4, 1},
        {"192x128", block_scaled(192, 128, 3), 85.0 * 801.6 / 813.5, 1},
        {"swapped 128x104, 725 clocks", block_scaled(128, 104, 2, true), 100 * 416.0 / 725, 3},
        {"swapped 128x136, 1030 clocks", block_scaled(128, 136, 2, true), 100 * 544.0 / 1030, 3},
        {"swapped 128x208, 1540 clocks", block_scaled(128, 208, 2, true), 100 * 832.0 / 1540, 3},
        {"both 128x128", both_scaled(128, 128, 2), 58.1, 1},
        {"both 128x192", both_scaled(128, 192, 2), 55.7, 3},
        {"both 256x128", both_scaled(256, 128, 2), 56.9, 2},
        {"both 192x128", both_scaled(192, 128, 3), 58.2, 1},
        {"unpromoted 128x128", unpromoted(128, 128), 99.8, 1},
        {"unpromoted 256x128", unpromoted(256, 128), 99.9, 1},
        {"unpromoted 128x16, 83.0 weights a clock", unpromoted(128, 16), 100 * 83.0 * 64 / (128 * 128), 2},
        {"unpromoted 128x32, 69.3", unpromoted(128, 32), 100 * 69.3 * 128 / (128 * 128), 2},
        {"unpromoted 128x64, 50.1", unpromoted(128, 64), 100 * 50.1 * 256 / (128 * 128), 2},
    };
    for (const Measured& row : rows) EXPECT_NEAR(busy_percent(row.tile), row.busy_percent, row.tolerance) << row.name;
}

TEST(Loop, TakesTheTensorClocksOfTheHardware) {
    EXPECT_EQ(loop(block_scaled(128, 128, 2)).tensor_clocks, 128 * 128 * 128 / 4096.0);
}

}  // namespace
}  // namespace tilewright::planner
