// A quantiser's launches on a fake driver: their order, their stream, kernels that are loaded once.
#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/quantize_tokens.h>

#include "cuda/gpu_problem.h"

namespace tilewright::cuda {
namespace {

using test::FakeMachine;
using test::gpu_tensor;

StreamHandle stream(std::intptr_t value) { return reinterpret_cast<StreamHandle>(value); }

Operand by_row(int device) {
    return {gpu_tensor(Format::e4m3, {256, 512}, device), Granularity::row, gpu_tensor(Format::f32, {256}, device), {}};
}

TEST(QuantizeLaunches, RunInOrderOnTheStreamAndAreLoadedOnce) {
    FakeMachine machine;
    machine.fake().record_arguments = false;
    const auto launches = launch::lower(gpu_tensor(Format::bf16, {256, 512}, 1), by_row(1), false);
    ASSERT_EQ(launches.size(), 4U) << "scales of rows: cleared, measured, finished, used";
    machine.runtime().quantize(launches, {.device = 1, .stream = stream(0x55)});
    EXPECT_EQ(machine.fake().launches, 4);
    EXPECT_EQ(machine.fake().libraries, 4);
    EXPECT_EQ(machine.fake().last.config.stream, stream(0x55));
    EXPECT_EQ(machine.fake().last.config.grid[0], 8U) << "tiles of 128 x 128";
    EXPECT_EQ(machine.fake().last.config.block[0], 256U);
    EXPECT_EQ(machine.fake().last.device, 1);
    EXPECT_EQ(machine.fake().strict_loads, 0) << "a capture under way would end";
    machine.runtime().quantize(launches, {.device = 1});
    EXPECT_EQ(machine.fake().launches, 8);
    EXPECT_EQ(machine.fake().libraries, 4);
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
    EXPECT_NE(message(x, {.recipe = row}, by_row(1)).find("memory of GPU 1 given, memory of GPU 0"), std::string::npos);
    EXPECT_NE(
        message(x, {.recipe = row, .deep_gemm = true}, by_row(0)).find("scales without DeepGEMM's rules on a GPU"),
        std::string::npos);
    const Operand mx{
        gpu_tensor(Format::e4m3, {256, 512}, 0), Granularity::block_1x32, gpu_tensor(Format::ue8m0, {256, 16}, 0), {}};
    EXPECT_NE(message(x, {.recipe = {Format::e4m3, Granularity::block_1x32, Format::ue8m0}}, mx)
                  .find("fp8 with tensor, row, 1x128 or 128x128 scales on a GPU"),
              std::string::npos);
}

}  // namespace
}  // namespace tilewright::cuda
