// Calls with a workspace on a fake driver: what is launched before the product, in which order, and when a call is a
// repetition.
#include <gtest/gtest.h>

#include "cuda/count_allocations.h"
#include "cuda/gpu_problem.h"
#include "formats/packed_layout.h"
#include "kernel_of_recipe.h"
#include "problem/packed_problem.h"
#include "problem/workspace_plan.h"

namespace tilewright::cuda {
namespace {

using test::FakeLaunch;
using test::FakeMachine;
using test::gpu_problem;
using test::stream;

Workspace workspace(std::uintptr_t address, std::int64_t bytes = 1 << 20) {
    return {reinterpret_cast<void*>(address), bytes};
}

Problem tn() { return gpu_problem({.m = 256, .n = 512, .k = 1024, .layout = Layout::tn}); }

TEST(PreparedCalls, LaunchTheCopyThenTheProductInTheCallersStream) {
    FakeMachine machine;
    machine.run(tn(), stream(0x33), workspace(0x90000000));
    ASSERT_EQ(machine.fake().launches, 2);
    const FakeLaunch& copy = machine.fake().before_last;
    EXPECT_EQ(copy.config.stream, stream(0x33));
    EXPECT_EQ(copy.config.grid[0], 2U * 8) << "squares of 128 x 128 of a";
    EXPECT_EQ(copy.config.block[0], 256U);
    EXPECT_EQ(copy.arguments.a.words[0], 0U) << "not a product: its arguments are of another type";
    EXPECT_EQ(machine.fake().last.config.stream, stream(0x33));
    EXPECT_NE(machine.fake().last.kernel, copy.kernel);
    EXPECT_EQ(machine.fake().strict_loads, 0) << "a capture under way would end";
}

TEST(PreparedCalls, TheProductReadsTheWorkspaceInsteadOfTheOperand) {
    FakeMachine machine;
    machine.run(tn(), nullptr, workspace(0x90000000));
    EXPECT_EQ(machine.fake().last.arguments.a.words[0], 0x90000000U);
    EXPECT_EQ(machine.fake().last.arguments.b.words[0], 0x12000000U);
}

TEST(PreparedCalls, OnlyTheProductOverlapsWhatIsAhead) {
    FakeMachine machine;
    machine.run(tn(), {nullptr, true}, workspace(0x90000000));
    EXPECT_EQ(machine.fake().before_last.config.attribute_count, 0U)
        << "a product ahead may still read the workspace that the copy overwrites";
    EXPECT_EQ(machine.fake().last.config.attribute_count, 1U);
    EXPECT_EQ(machine.fake().last.attribute.id, LaunchAttribute::programmatic_stream_serialization);
}

TEST(PreparedCalls, WeightsThatTheCallWritesAreNotReady) {
    FakeMachine machine;
    machine.run(tn(), {nullptr, true, true}, workspace(0x90000000));
    EXPECT_FALSE(machine.fake().last.arguments.weights_ready);
}

TEST(PreparedCalls, ARepetitionHasTheSameWorkspace) {
    FakeMachine machine;
    const Problem p = tn();
    machine.run(p, nullptr, workspace(0x90000000));
    const int libraries = machine.fake().libraries;
    EXPECT_FALSE(machine.runtime().repeat(p, nullptr));
    EXPECT_FALSE(machine.runtime().repeat(p, nullptr, workspace(0xA0000000)));
    EXPECT_FALSE(machine.runtime().repeat(p, nullptr, workspace(0x90000000, 256 * 1024 - 1)));
    const long before = test::allocations();
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr, workspace(0x90000000, 256 * 1024)));
    EXPECT_EQ(test::allocations(), before);
    EXPECT_EQ(machine.fake().launches, 4);
    EXPECT_EQ(machine.fake().libraries, libraries);
}

TEST(PreparedCalls, AWorkspaceThatIsNotNeededIsNotLookedAt) {
    FakeMachine machine;
    const Problem p = gpu_problem({});
    machine.run(p, nullptr);
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr, workspace(0x90000000)));
    machine.run(gpu_problem({.k = 0, .layout = Layout::tn}), nullptr);
    EXPECT_EQ(machine.fake().launches, 3) << "without k nothing is copied";
    machine.run(gpu_problem({.m = 0, .layout = Layout::tn}), nullptr);
    EXPECT_EQ(machine.fake().launches, 3);
}

TEST(PreparedCalls, WeightsAreJudgedPackedAndMultiplied) {
    FakeMachine machine;
    Problem p = gpu_problem({.m = 16, .n = 200, .k = 1024, .weights = Format::e2m1});
    p.b.values.strides[0] += 2;  // rows begin at any byte
    machine.run(p, {nullptr, true}, workspace(0x90000000, 1 << 24));
    ASSERT_EQ(machine.fake().launches, 3);
    EXPECT_EQ(machine.fake().before_last.config.grid[0], 4U) << "64 rows, 8 k-blocks a block";
    EXPECT_EQ(machine.fake().before_last.config.attribute_count, 0U);
    const hopper::PackedTiles& packed = machine.fake().last.arguments.packed;
    EXPECT_EQ(packed.tile_bytes, hopper::packed_tile_bytes(32, 4));
    EXPECT_EQ(packed.first, reinterpret_cast<const hopper::u8*>(0x90000000 + 128 + 256 * 8));
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr, workspace(0x90000000, 1 << 24)));
    EXPECT_EQ(machine.fake().launches, 6);
}

TEST(PreparedCalls, ScalesOfRawCodesAreJudgedAndTheCodesMultipliedWhereTheyAre) {
    FakeMachine machine;
    const Problem p = gpu_problem({.m = 16, .n = 200, .k = 1024, .weights = Format::e2m1});
    machine.run(p, {nullptr, true}, workspace(0x90000000, 1 << 24));
    ASSERT_EQ(machine.fake().launches, 2);
    EXPECT_EQ(machine.fake().before_last.config.grid[0], 4U) << "64 rows a block";
    const hopper::PackedTiles& tiles = machine.fake().last.arguments.packed;
    EXPECT_EQ(tiles.first, reinterpret_cast<const hopper::u8*>(0x90000000 + 128 + 256 * 8));
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr, workspace(0x90000000, 1 << 24)));
    EXPECT_EQ(machine.fake().launches, 4);
}

TEST(PreparedCalls, PackedWeightsAreExpandedThenMultiplied) {
    FakeMachine machine;
    Problem p = with_packed_shape(gpu_problem({.m = 4096, .n = 4096, .k = 4096, .weights = Format::e2m1}), 0);
    p.b.packed.data = reinterpret_cast<void*>(0x50000000);
    machine.run(p, {nullptr, true}, workspace(0x90000000, 1 << 25));
    ASSERT_EQ(machine.fake().launches, 2);
    EXPECT_EQ(machine.fake().before_last.config.grid[0], 64U * 4) << "64 rows, 8 k-blocks a block";
    EXPECT_EQ(machine.fake().before_last.config.shared_bytes, 18432U);
    EXPECT_EQ(machine.fake().before_last.config.attribute_count, 0U);
    EXPECT_EQ(machine.fake().last.arguments.b.words[0], 0x90000000U);
    EXPECT_EQ(machine.fake().last.arguments.scales_b.data, reinterpret_cast<void*>(0x90000000 + 4096 * 4096));
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr, workspace(0x90000000, 1 << 25)));
    EXPECT_EQ(machine.fake().launches, 4);
    p.b.packed.internal = formats::PackedInternal{.windows = 1}.words();
    machine.run(p, nullptr);
    EXPECT_EQ(machine.fake().launches, 5) << "wide rows, as they are";
}

TEST(PreparedCalls, ATileOfTheCallersChoice) {
    FakeMachine machine;
    const Problem p = tn();
    hopper::Kernel tile =
        tests::of_recipe("1x128:128x128", {.shape = {.m = 128, .n = 128}, .stages = 5, .swap_ab = true});
    tile.b.form = hopper::Form::columns;
    machine.runtime().run(geometry(p), tile, {.workspace = workspace(0x90000000)});
    EXPECT_EQ(machine.fake().launches, 2);
    EXPECT_EQ(machine.fake().last.arguments.a.words[0], 0x90000000U);
}

}  // namespace
}  // namespace tilewright::cuda
