// A quantizer's launches on a fake driver: their order, their stream, kernels that are loaded once.
#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/quantize_tokens.h>

#include <algorithm>

#include "cuda/gpu_problem.h"
#include "launch/quantize.h"

namespace tilewright::cuda {
namespace {

using test::FakeMachine;
using test::gpu_tensor;
using test::stream;

Operand by_row(int device) {
    return {gpu_tensor(Format::e4m3, {256, 512}, device), Granularity::row, gpu_tensor(Format::f32, {256}, device), {}};
}

TEST(QuantizeLaunches, RunInOrderOnTheStreamAndAreLoadedOnce) {
    FakeMachine machine;
    const auto launches = launch::lower(gpu_tensor(Format::bf16, {256, 512}, 1), by_row(1), false);
    ASSERT_EQ(launches.size(), 4U) << "scales of rows: cleared, measured, finished, used";
    machine.runtime().run(launches, {.device = 1, .stream = stream(0x55)});
    EXPECT_EQ(machine.fake().launches, 4);
    EXPECT_EQ(machine.fake().libraries, 4);
    EXPECT_EQ(machine.fake().last.config.stream, stream(0x55));
    EXPECT_EQ(machine.fake().last.config.grid[0], 8U) << "tiles of 128 x 128";
    EXPECT_EQ(machine.fake().last.config.block[0], 256U);
    EXPECT_EQ(machine.fake().last.device, 1);
    EXPECT_EQ(machine.fake().strict_loads, 0) << "a capture under way would end";
    machine.runtime().run(launches, {.device = 1});
    EXPECT_EQ(machine.fake().launches, 8);
    EXPECT_EQ(machine.fake().libraries, 4);
}

TEST(OtherLaunches, OverlapEarlierWorkOnlyIfTheirKernelsWaitForIt) {
    FakeMachine machine;
    const auto attributes = [&](const auto& kernel) {
        machine.runtime().run({launch::launch_of(kernel, {}, 1)}, {.overlap = true});
        return machine.fake().last.config.attribute_count;
    };
    EXPECT_EQ(attributes(launch::Combine{}), 1U);
    EXPECT_EQ(machine.fake().last.attribute.id, LaunchAttribute::programmatic_stream_serialization);
    EXPECT_EQ(attributes(launch::ClearScales{}), 0U);
    EXPECT_EQ(attributes(launch::PackTiles{}), 0U);
    EXPECT_FALSE(launch::waits_for_earlier<launch::WeightGradient>);
}

std::string message(const Tensor& source, const QuantizeOptions& options, const Operand& out) {
    try {
        quantize(source, options, out);
    } catch (const Error& error) {
        return error.what();
    }
    return "none";
}

TEST(QuantizeLaunches, WhatNoKernelServesIsNamedBeforeAnythingRuns) {
    const Tensor x = gpu_tensor(Format::bf16, {256, 512}, 0);
    const OperandRecipe row{Format::e4m3, Granularity::row};
    EXPECT_NE(message(x, {.recipe = row}, by_row(1)).find("got memory of cuda:1; expected memory of cuda:0"),
              std::string::npos);
    EXPECT_NE(
        message(x, {.recipe = row, .deep_gemm = true}, by_row(0)).find("scales without DeepGEMM's rules on a GPU"),
        std::string::npos);
    const Operand scaleless{gpu_tensor(Format::e4m3, {256, 512}, 0), Granularity::none, {}, {}};
    EXPECT_NE(message(x, {.recipe = {Format::e4m3, Granularity::none}}, scaleless).find("values with scales on a GPU"),
              std::string::npos);
}

TEST(QuantizeLaunches, Nvfp4IsMeasuredBeforeAndMxfp8IsOneLaunch) {
    const Tensor x = gpu_tensor(Format::bf16, {300, 1040}, 0);
    const Operand mxfp8{
        gpu_tensor(Format::e4m3, {300, 1040}, 0), Granularity::block_1x32, gpu_tensor(Format::ue8m0, {300, 33}, 0), {}};
    const auto one = launch::lower(x, mxfp8, false);
    ASSERT_EQ(one.size(), 1U);
    EXPECT_TRUE(one[0].of<launch::QuantizeBlocks>().kernel.spec.vectors);
    EXPECT_EQ(one[0].blocks, 10 * 3) << "tiles of 32 x 512";
    const Operand nvfp4{gpu_tensor(Format::e2m1, {300, 1040}, 0), Granularity::block_1x16,
                        gpu_tensor(Format::ue4m3, {300, 65}, 0), gpu_tensor(Format::f32, {1}, 0)};
    const auto four = launch::lower(x, nvfp4, false);
    ASSERT_EQ(four.size(), 4U);
    EXPECT_EQ(four[1].of<launch::Measure>().kernel.spec.rows.scaled, hopper::ScaledBy::all);
    EXPECT_EQ(four[1].blocks, 3 * 9) << "tiles of 128 x 128";
    EXPECT_EQ(four[3].of<launch::QuantizeBlocks>().arguments.tensor_scales.data, nvfp4.tensor_scale.data);
}

/// The kernels of these launches that no pack holds, by name.
std::string unshipped(const std::vector<launch::OtherLaunch>& launches) {
    const std::vector<launch::OtherKernel> shipped = launch::shipped_other_kernels();
    std::string names = launches.empty() ? "nothing is launched" : "";
    for (const launch::OtherLaunch& launch : launches) {
        const launch::OtherKernel kernel = launch.kernel();
        if (std::ranges::find(shipped, kernel) == shipped.end()) names += kernel_expression(kernel) + "\n";
    }
    return names;
}

/// An operand of `rows` rows in e4m3, with scales of one format.
Operand operand(Granularity granularity, std::int64_t rows, std::int64_t k, Format scales = Format::f32) {
    const auto count = [](std::int64_t size, int block) { return (size + block - 1) / block; };
    const Tensor values = gpu_tensor(Format::e4m3, {rows, k}, 0);
    switch (granularity) {
        case Granularity::block_1x128: return {values, granularity, gpu_tensor(scales, {rows, count(k, 128)}, 0), {}};
        case Granularity::block_128x128:
            return {values, granularity, gpu_tensor(scales, {count(rows, 128), count(k, 128)}, 0), {}};
        case Granularity::row: return {values, granularity, gpu_tensor(scales, {rows}, 0), {}};
        default: return {values, granularity, gpu_tensor(scales, {1}, 0), {}};
    }
}

TEST(QuantizeLaunches, KernelsOfCommonCallsShip) {
    constexpr std::int64_t tokens = 300, features = 512;
    const Tensor x = gpu_tensor(Format::bf16, {tokens, features}, 0);
    for (const Granularity each :
         {Granularity::block_1x128, Granularity::block_128x128, Granularity::row, Granularity::tensor}) {
        EXPECT_EQ(unshipped(launch::lower(x, operand(each, tokens, features), false)), "");
    }
    for (const Granularity each : {Granularity::block_1x128, Granularity::block_128x128}) {
        EXPECT_EQ(unshipped(launch::lower(x, operand(each, tokens, features), true)), "");
    }
    const Operand ue8m0 = operand(Granularity::block_1x128, tokens, features, Format::ue8m0);
    EXPECT_EQ(unshipped(launch::lower(x, ue8m0, false)), "");
    const Tensor gate_and_up = gpu_tensor(Format::bf16, {tokens, 2 * features}, 0);
    for (const Tensor& ends : {Tensor{}, gpu_tensor(Format::i32, {3}, 0)}) {
        for (const Granularity each : {Granularity::block_1x128, Granularity::row}) {
            const TokenOperand rows{.operand = operand(each, tokens, features)};
            const TokenOperand columns{.operand = operand(each, features, 768)};
            EXPECT_EQ(unshipped(launch::lower({.x = x, .ends = ends}, rows, columns, false)), "");
        }
        const TokenOperand rows{.operand = operand(Granularity::block_1x128, tokens, features)};
        EXPECT_EQ(unshipped(launch::lower({.x = gate_and_up, .activation = Activation::swiglu, .ends = ends}, rows, {},
                                          false)),
                  "");
    }
    EXPECT_NE(unshipped(launch::lower(gpu_tensor(Format::f32, {tokens, features}, 0), ue8m0, false)), "");
}

}  // namespace
}  // namespace tilewright::cuda
