// Every code of a format, and unusable scales, each in another row. The GPU's bits are the CPU's, so that NaN and
// infinities stay within their row, column or block.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <array>
#include <cstring>
#include <limits>

#include "check/case.h"
#include "cpu/exact/exact.h"
#include "formats/element.h"
#include "gpu/recipes.h"
#include "plan/choose.h"
#include "verify/gpu_case.h"

namespace tilewright::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::array odd_scales{0.0F,      -0.0F,   1e-40F,   -1e-40F,
                                1e-23F,    1e23F,   -1e23F,   infinity,
                                -infinity, 3.4e38F, 1.2e-38F, std::numeric_limits<float>::quiet_NaN()};

/// Both backends on the case as it is now; what differs.
std::string difference(check::Case& spoiled, measure::Device& device) {
    spoiled.problem().arithmetic = Arithmetic::bit_exact;
    spoiled.reset_output();
    cpu::run_exact(spoiled.geometry(), {.k_splits = planner::planned_k_splits(spoiled.problem(), default_device())});
    const std::vector<std::byte> expected = spoiled.output();
    spoiled.reset_output();
    const verify::GpuCase gpu(spoiled, 1);
    run(gpu.problem(), {.backend = Backend::hopper, .stream = device.stream()});
    device.synchronize();
    const std::string damage = gpu.damage();
    if (!damage.empty()) return damage;
    spoiled.set_output(gpu.output());
    if (spoiled.output() == expected) return "";
    return "other bits than the CPU's: " + check::describe(spoiled.spec());
}

std::uint8_t* bytes(const Tensor& tensor) { return static_cast<std::uint8_t*>(tensor.data); }

TEST(GpuSpecial, EveryCodeOfAFormat) {
    measure::Device device;
    for (const char* text :
         {"1x128:128x128", "row:row", "tensor:tensor", "e5m2.1x128:e4m3.1x128", "e5m2.row:e5m2.row"}) {
        for (const bool in_a : {true, false}) {
            check::Case spoiled({.recipe = recipe_of(text), .m = 256, .n = 256, .k = 272});
            const Tensor& values = in_a ? spoiled.problem().a.values : spoiled.problem().b.values;
            for (std::int64_t code = 0; code < 256; ++code) {
                bytes(values)[code * values.strides[0] + code * 7 % 272] = static_cast<std::uint8_t>(code);
            }
            EXPECT_EQ(difference(spoiled, device), "") << text;
        }
    }
}

TEST(GpuSpecial, ScalesThatOverflowVanishOrAreNoNumbers) {
    measure::Device device;
    for (const char* text : {"1x128:128x128", "1x128:1x128", "row:row", "row:mxfp8", "1x128:mxfp8", "mxfp8:128x128"}) {
        for (const bool in_a : {true, false}) {
            if ((in_a ? recipe_of(text).a : recipe_of(text).b).scales != Format::f32) continue;
            for (const Format output : {Format::bf16, Format::f32}) {
                check::Case spoiled({.recipe = recipe_of(text), .output = output, .m = 200, .n = 1600, .k = 384});
                const Tensor& scales = in_a ? spoiled.problem().a.scales : spoiled.problem().b.scales;
                for (std::size_t i = 0; i < odd_scales.size(); ++i) {
                    const auto row = static_cast<std::int64_t>(i) % scales.shape[0];
                    const std::int64_t column =
                        scales.shape.rank() == 2 ? (row % scales.shape[1]) * scales.strides[1] : 0;
                    formats::store(scales.data, Format::f32, row * scales.strides[0] + column, odd_scales[i]);
                }
                EXPECT_EQ(difference(spoiled, device), "") << text;
            }
        }
    }
}

TEST(GpuSpecial, EveryPowerOfTwoAsScale) {
    measure::Device device;
    for (const char* text :
         {"1x128.ue8m0:128x128.ue8m0", "1x128.ue8m0:1x128.ue8m0", "1x128.ue8m0:mxfp8", "mxfp8:row", "mxfp8:mxfp8"}) {
        check::Case spoiled({.recipe = recipe_of(text), .output = Format::f32, .m = 256, .n = 264, .k = 400});
        const Tensor& scales = spoiled.problem().a.scales;
        for (std::int64_t code = 0; code < 256; ++code) {
            bytes(scales)[code * scales.strides[0] + code % scales.shape[1] * scales.strides[1]] =
                static_cast<std::uint8_t>(code);
        }
        EXPECT_EQ(difference(spoiled, device), "") << text;
    }
}

/// NaN in one row of A leaves every other row as it was.
TEST(GpuSpecial, ARowOfNanStaysAlone) {
    measure::Device device;
    check::Case sound({.recipe = recipe_of("1x128:128x128"), .m = 130, .n = 264, .k = 528});
    check::Case spoiled({.recipe = recipe_of("1x128:128x128"), .m = 130, .n = 264, .k = 528});
    const Tensor& values = spoiled.problem().a.values;
    std::memset(bytes(values) + 77 * values.strides[0], 0x7F, 528);
    EXPECT_EQ(difference(sound, device), "");
    EXPECT_EQ(difference(spoiled, device), "");
    for (std::int64_t row = 0; row < 130; ++row) {
        for (std::int64_t column = 0; column < 264; ++column) {
            const std::uint32_t bits = spoiled.output_bits(0, row, column);
            ASSERT_EQ(bits, row == 77 ? 0x7FFFU : sound.output_bits(0, row, column)) << row << " " << column;
        }
    }
}

}  // namespace
}  // namespace tilewright::test
