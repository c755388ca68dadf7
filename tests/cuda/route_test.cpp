// The cluster of the kernel that routes, on a fake driver: as large as the GPU runs it.
#include <gtest/gtest.h>

#include "cuda/gpu_problem.h"
#include "launch/moe.h"

namespace tilewright::cuda {
namespace {

using test::FakeMachine;
using test::gpu_tensor;

std::vector<launch::OtherLaunch> route_of(std::int64_t tokens) {
    return launch::lower(moe::RouteStep{.routing = {.experts = gpu_tensor(Format::i32, {tokens, 8}, 0)},
                                        .experts = 256,
                                        .out = {.rows = gpu_tensor(Format::i32, {tokens, 8}, 0)}});
}

TEST(RouteClusters, HaveSixteenBlocksWhereTheGpuRunsThem) {
    FakeMachine machine;
    machine.runtime().run(route_of(8192), {.device = 0});
    EXPECT_EQ(machine.fake().launches, 1);
    EXPECT_EQ(machine.fake().last.config.grid[0], 16U);
    EXPECT_EQ(machine.fake().last.attribute.x, 16U);
    EXPECT_EQ(machine.fake().strict_loads, 0) << "a capture under way would end";
    machine.runtime().run(route_of(128), {.device = 0});
    EXPECT_EQ(machine.fake().last.config.grid[0], 16U) << "few choices too";
    EXPECT_EQ(machine.fake().libraries, 1);
}

void expect_eight_blocks(FakeMachine& machine) {
    machine.runtime().run(route_of(8192), {.device = 0});
    EXPECT_EQ(machine.fake().launches, 1);
    EXPECT_EQ(machine.fake().last.config.grid[0], 8U);
    EXPECT_EQ(machine.fake().last.attribute.x, 8U);
}

TEST(RouteClusters, HaveEightBlocksWhereNoMoreRunTogether) {
    FakeMachine machine;
    machine.fake().largest_cluster = 8;
    expect_eight_blocks(machine);
}

TEST(RouteClusters, HaveEightBlocksWhereTheDriverRefusesMore) {
    FakeMachine machine;
    machine.fake().refuses_large = true;
    expect_eight_blocks(machine);
}

}  // namespace
}  // namespace tilewright::cuda
