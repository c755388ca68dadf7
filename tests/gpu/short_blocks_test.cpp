// MXFP8, MXFP4 and NVFP4 quantized on a GPU: the CPU's bytes from every format in every order of memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "gpu/gpu_case.h"
#include "gpu/quantize_case.h"

namespace tilewright {
namespace {

using formats::Matrix;
using formats::Order;
using test::expect_cpu_bits;

class GpuQuantizeShortBlocks : public testing::TestWithParam<OperandRecipe> {};

TEST_P(GpuQuantizeShortBlocks, EveryFormatInEveryOrder) {
    const test::CurrentDevice device;
    const bool fp4 = GetParam().values == Format::e2m1;
    for (const Dims& shape : {Dims{300, 1040}, Dims{130, fp4 ? 78 : 77}, Dims{2, 144, 272}}) {
        for (const Format format : {Format::f32, Format::bf16, Format::f16}) {
            for (const Order from : formats::all_orders) {
                Matrix x(format, shape, from);
                test::fill(x, 8);
                for (const Order to : formats::all_orders) {
                    expect_cpu_bits(x, {.recipe = GetParam()}, to);
                    expect_cpu_bits(x, {.recipe = GetParam(), .round_up = true}, to);
                }
            }
        }
    }
}

/// Every number of bf16 in turn with one that leads its block, in blocks of every size.
TEST_P(GpuQuantizeShortBlocks, EveryNumberOfBf16) {
    const test::CurrentDevice device;
    Matrix x(Format::bf16, {256, 512});
    auto* codes = static_cast<std::uint16_t*>(x.tensor().data);
    for (std::uint32_t i = 0; i < 256 * 512; ++i) {
        const std::uint32_t code = i / 2 % 0x7F80, sign = i % 5 == 0 ? 0x8000 : 0;
        codes[i] = static_cast<std::uint16_t>((i % 2 == 0 ? code : std::max(code, 0x180U) - i / 2 % 0x180) | sign);
    }
    for (const bool round_up : {false, true}) {
        expect_cpu_bits(x, {.recipe = GetParam(), .round_up = round_up}, Order::row_major);
    }
}

INSTANTIATE_TEST_SUITE_P(Each, GpuQuantizeShortBlocks,
                         testing::Values(OperandRecipe{Format::e4m3, Granularity::block_1x32, Format::ue8m0},
                                         OperandRecipe{Format::e5m2, Granularity::block_1x32, Format::ue8m0},
                                         OperandRecipe{Format::e2m1, Granularity::block_1x32, Format::ue8m0},
                                         OperandRecipe{Format::e2m1, Granularity::block_1x16, Format::ue4m3}),
                         [](const auto& tested) {
                             return std::string(name(tested.param.values)) + "_" +
                                    std::string(name(tested.param.granularity));
                         });

}  // namespace
}  // namespace tilewright
