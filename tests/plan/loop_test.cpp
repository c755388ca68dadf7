// The main loop's model against the loops that were measured on an H200. These are this library's kernels (2026-11-22;
// src/plan/loop.cpp has the method), and synthetic loops of k-blocks of 128.
#include "plan/model.h"

#include <gtest/gtest.h>

#include <vector>

#include "hopper/description/design.h"
#include "kernel_of_recipe.h"

namespace tilewright::planner {
namespace {

using tests::of_recipe;

struct Measured {
    const char* name;
    hopper::Kernel tile;
    double busy_percent;
    double tolerance;  // percentage points; more where the measured rows themselves scatter
};

double busy_percent(const hopper::Kernel& tile) {
    const Loop rate = loop(hopper::Design(tile));
    return 100 * rate.tensor_clocks / (rate.tensor_clocks + rate.stall_clocks);
}

hopper::Kernel promoting_tile(int m, int n, int warpgroups, bool swap = false) {
    return of_recipe("1x128:128x128", {.shape = {.m = m, .n = n, .warpgroups = warpgroups}, .swap_ab = swap});
}

hopper::Kernel both_scaled(int m, int n, int warpgroups) {
    return of_recipe("1x128:1x128", {.shape = {.m = m, .n = n, .warpgroups = warpgroups}});
}

hopper::Kernel unpromoted(int m, int n) {
    return of_recipe("tensor:tensor", {.shape = {.m = m, .n = n}}, Accumulation::unpromoted);
}

/// Clocks a k-block of the promoted loops, in the median of the shapes with at least 0.8 of whole waves.
struct Clocks {
    int m;
    int n;
    int warpgroups;
    bool swap;
    double clocks;
};

TEST(Loop, TakesTheClocksOfTheKernels) {
    const std::vector<Clocks> rows{
        {256, 128, 2, false, 1144}, {128, 256, 2, false, 1161}, {128, 224, 2, false, 1103}, {128, 208, 2, false, 1139},
        {256, 96, 2, false, 952},   {128, 192, 2, false, 847},  {128, 176, 2, false, 847},  {128, 160, 2, false, 760},
        {128, 144, 2, false, 731},  {128, 128, 2, false, 621},  {128, 112, 2, false, 598},  {128, 96, 2, false, 525},
        {128, 80, 2, false, 483},   {192, 128, 3, false, 815},  {192, 112, 3, false, 796},  {192, 96, 3, false, 733},
        {192, 64, 3, false, 531},   {64, 192, 1, false, 640},   {64, 160, 1, false, 555},   {64, 128, 1, false, 370},
        {64, 112, 1, false, 404},   {64, 96, 1, false, 342},    {64, 80, 1, false, 316},    {64, 64, 1, false, 285},
        {64, 48, 1, false, 265},    {128, 136, 2, true, 838},   {128, 104, 2, true, 688},   {128, 72, 2, true, 553},
        {128, 40, 2, true, 385},    {128, 32, 2, true, 376},    {128, 16, 2, true, 313},    {64, 136, 1, true, 640},
        {64, 88, 1, true, 376},     {64, 72, 1, true, 352},     {64, 40, 1, true, 304},     {64, 32, 1, true, 302},
        {64, 16, 1, true, 273},     {64, 8, 1, true, 262}};
    for (const Clocks& row : rows) {
        const Loop rate = loop(hopper::Design(promoting_tile(row.m, row.n, row.warpgroups, row.swap)));
        EXPECT_NEAR((rate.tensor_clocks + rate.stall_clocks) / row.clocks, 1, 0.08)
            << row.m << "x" << row.n << (row.swap ? " swapped" : "");
    }
}

/// Synthetic loops of 2026-11-21, operands from L2 by TMA.
TEST(Loop, IsAsBusyAsWasMeasured) {
    const std::vector<Measured> rows{
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
    EXPECT_EQ(loop(hopper::Design(promoting_tile(128, 128, 2))).tensor_clocks, 128 * 128 * 128 / 4096.0);
}

}  // namespace
}  // namespace tilewright::planner
