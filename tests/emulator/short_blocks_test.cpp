// The quantizers of MXFP8, MXFP4 and NVFP4 on the emulator against the CPU's, bit for bit, with the bytes between and
// after the output. Also their rounding to e2m1, for every number of bf16.
#include "emulator/emulator.h"
#include "emulator/other_kernels.h"
#include "formats/matrices.h"
#include "hopper/quantize/e2m1.h"
#include "launch/quantize.h"

#include "emulator/primitives.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace tilewright::tests {
namespace {

using formats::Matrix;
using formats::Order;

/// Rows of every size, from subnormal numbers to the largest; in a row 2^-7 to 1 of it, with zeros of both signs.
void fill(Matrix& matrix, unsigned seed, bool special) {
    std::mt19937 random(seed);
    const bool is_f16 = matrix.tensor().format == Format::f16;
    const int lowest = is_f16 ? -26 : -151, exponents = is_f16 ? 42 : 278;
    for (std::int64_t g = 0; g < matrix.groups(); ++g) {
        for (std::int64_t i = 0; i < matrix.rows(); ++i) {
            const int row = lowest + static_cast<int>(random() % static_cast<unsigned>(exponents));
            for (std::int64_t j = 0; j < matrix.columns(); ++j) {
                // Few bits, so that middles of codes are among the quotients; or many.
                const unsigned bits = random() % 3 == 0 ? 3 : 24;
                const double significand = std::ldexp(1.0 + random() % (1U << (bits - 1)), 1 - static_cast<int>(bits));
                const double number = std::ldexp(significand, row - static_cast<int>(random() % 8));
                matrix.set(g, i, j,
                           random() % 9 == 0 ? std::copysign(0.0, random() % 2 ? 1 : -1)
                           : random() % 2    ? number
                                             : -number);
            }
        }
    }
    for (std::int64_t j = 0; matrix.rows() > 3 && j < matrix.columns(); ++j) matrix.set(0, 3, j, 0);
    if (!special) return;
    for (const double number : {double{NAN}, -double{NAN}, double{INFINITY}, -double{INFINITY}}) {
        matrix.set(0, random() % matrix.rows(), random() % matrix.columns(), number);
    }
}

struct Case {
    OperandRecipe recipe{};
    Dims shape{};
    Format source = Format::bf16;
    Order from = Order::row_major;
    Order to = Order::row_major;
    bool special = false;
    bool round_up = false;
    bool shared = false;  // one tensor scale for all groups
    bool spread_scales = false;
};

struct Output {
    explicit Output(const Case& c)
        : values(c.recipe.values, c.shape, c.to),
          scales(c.recipe.scales, scale_shape(c.recipe.granularity, c.shape),
                 c.spread_scales ? Order::spread : Order::row_major),
          tensor_scale(Format::f32, tensors(c)) {
        operand = {values.tensor(), c.recipe.granularity, scales.tensor(), {}};
        if (c.recipe.granularity == Granularity::block_1x16) operand.tensor_scale = tensor_scale.tensor();
    }
    static Dims tensors(const Case& c) { return {c.shape.rank() == 3 && !c.shared ? c.shape[0] : 1}; }

    Matrix values;
    Matrix scales;
    Matrix tensor_scale;
    Operand operand;
};

/// All bytes from the first element to the last.
std::vector<std::uint8_t> bytes(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
    const auto* data = static_cast<const std::uint8_t*>(tensor.data);
    return {data, data + (last + 1) * bits(tensor.format) / 8};
}

void expect_cpu_bits(const Case& c, unsigned seed = 7) {
    SCOPED_TRACE(name(c.recipe) + " " + to_string(c.shape) + " from " + std::string(name(c.source)) + " order " +
                 std::to_string(int(c.from)) + " to " + std::to_string(int(c.to)) + (c.round_up ? " up" : ""));
    Matrix source(c.source, c.shape, c.from);
    fill(source, seed, c.special);
    const Output given(c), expected(c);
    quantize(source.tensor(), {.recipe = c.recipe, .round_up = c.round_up}, expected.operand);
    run_on_emulator(launch::lower(source.tensor(), given.operand, c.round_up), seed);
    if (given.operand.tensor_scale.given()) {
        EXPECT_EQ(bytes(given.tensor_scale.tensor()), bytes(expected.tensor_scale.tensor()));
    }
    EXPECT_EQ(bytes(given.scales.tensor()), bytes(expected.scales.tensor()));
    const auto a = bytes(given.values.tensor()), b = bytes(expected.values.tensor());
    ASSERT_EQ(a.size(), b.size());
    int wrong = 0;
    for (std::size_t i = 0; i < a.size() && wrong < 5; ++i) {
        if (a[i] == b[i]) continue;
        ADD_FAILURE() << "byte " << i << " is " << int(a[i]) << ", the CPU's " << int(b[i]);
        ++wrong;
    }
}

const OperandRecipe recipes[] = {{Format::e4m3, Granularity::block_1x32, Format::ue8m0},
                                 {Format::e5m2, Granularity::block_1x32, Format::ue8m0},
                                 {Format::e2m1, Granularity::block_1x32, Format::ue8m0},
                                 {Format::e2m1, Granularity::block_1x16, Format::ue4m3}};

TEST(ShortBlocks, AlignedMatricesHaveTheCpusBits) {
    for (const OperandRecipe& recipe : recipes) {
        for (const Format source : {Format::bf16, Format::f32, Format::f16}) {
            for (const bool round_up : {false, true}) {
                expect_cpu_bits({.recipe = recipe, .shape = {300, 560}, .source = source, .round_up = round_up});
                expect_cpu_bits(
                    {.recipe = recipe, .shape = {35, 1040}, .source = source, .special = true, .round_up = round_up});
            }
        }
    }
}

TEST(ShortBlocks, MatricesOfAnyOrderAndSizeHaveTheCpusBits) {
    for (const OperandRecipe& recipe : recipes) {
        const bool fp4 = recipe.values == Format::e2m1;
        for (const Format source : {Format::bf16, Format::f32, Format::f16}) {
            expect_cpu_bits({.recipe = recipe, .shape = {37, fp4 ? 78 : 77}, .source = source, .special = true});
            expect_cpu_bits({.recipe = recipe, .shape = {1, 2}, .source = source});
            for (const Order from : formats::all_orders) {
                for (const Order to : formats::all_orders) {
                    expect_cpu_bits({.recipe = recipe,
                                     .shape = {34, 530},
                                     .source = source,
                                     .from = from,
                                     .to = to,
                                     .special = true});
                }
            }
            // Pairs of rows share bytes, and k is odd.
            expect_cpu_bits({.recipe = recipe, .shape = {34, 67}, .source = source, .to = Order::transposed});
        }
    }
}

TEST(ShortBlocks, GroupsAndScalesInAnyStridesHaveTheCpusBits) {
    for (const OperandRecipe& recipe : recipes) {
        for (const bool round_up : {false, true}) {
            expect_cpu_bits({.recipe = recipe, .shape = {3, 34, 144}, .round_up = round_up, .spread_scales = true});
            expect_cpu_bits({.recipe = recipe, .shape = {3, 20, 32}, .round_up = round_up, .shared = true});
        }
        expect_cpu_bits({.recipe = recipe, .shape = {2, 6, 70}, .from = Order::spread, .to = Order::transposed});
    }
}

TEST(ShortBlocks, NothingIsWrittenOfNothingButTheTensorScale) {
    for (const OperandRecipe& recipe : recipes) {
        const Case c{.recipe = recipe, .shape = {0, 32}};
        const Matrix source(Format::bf16, {4, 32});
        Tensor none = source.tensor();
        none.shape = c.shape;
        const Matrix tensor_scale(Format::f32, {1});
        Operand out{none, recipe.granularity, none, {}};
        if (recipe.granularity == Granularity::block_1x16) out.tensor_scale = tensor_scale.tensor();
        const auto launches = launch::lower(none, out, false);
        EXPECT_EQ(launches.size(), out.tensor_scale.given() ? 2U : 0U);
        run_on_emulator(launches);
        if (!out.tensor_scale.given()) continue;
        EXPECT_EQ(*static_cast<const float*>(tensor_scale.tensor().data), 1);
    }
}

/// Tensors whose scale differs, with values that are the scales' multiples, where quotients are close to middles.
TEST(ShortBlocks, QuotientsNextToMiddlesOfCodesHaveTheCpusBits) {
    const OperandRecipe nvfp4 = recipes[3];
    for (int amax = 128; amax < 256; amax += 5) {
        for (const Format format : {Format::bf16, Format::f32}) {
            Matrix source(format, {32, 512});
            int i = 0;
            source.fill([&] {
                const int at = i++;
                // The first of each block leads it, so that all scales of blocks are among them.
                const double lead = at % 16 == 0 ? amax / (1.0 + at / 16 % 61 / 7.0) : 128 + at * 7 % 128;
                return std::ldexp(lead, at % 16 == 0 ? 0 : -(at * 5 % 7)) * (at % 3 == 0 ? -1 : 1);
            });
            source.set(0, 0, 0, amax);
            const Case c{.recipe = nvfp4, .shape = {32, 512}};
            const Output given(c), expected(c);
            quantize(source.tensor(), {.recipe = nvfp4}, expected.operand);
            run_on_emulator(launch::lower(source.tensor(), given.operand, false));
            EXPECT_EQ(bytes(given.scales.tensor()), bytes(expected.scales.tensor())) << amax;
            EXPECT_EQ(bytes(given.values.tensor()), bytes(expected.values.tensor())) << amax;
        }
    }
}

std::uint32_t code_of(float number) {
    float eight[8]{};
    eight[5] = hopper::keep_inexact(number * hopper::e2m1_shift);
    return hopper::encode_e2m1(eight) >> 20;
}

std::uint32_t short_code_of(float number) {
    float eight[8]{};
    eight[2] = number * hopper::e2m1_shift;
    return hopper::encode_e2m1(eight) >> 8 & 15U;
}

TEST(ShortBlocks, E2m1IsRoundedAsTheCpuRounds) {
    int wrong = 0;
    const auto expect_code = [&](float number) {
        wrong += (code_of(number) & 15U) != formats::encode(formats::e2m1_fields, number) ? 1 : 0;
    };
    // Quotients are below 2^9; every number of bf16 that is.
    for (std::uint32_t code = 0; code < 1U << 16; ++code) {
        const auto number = std::bit_cast<float>(code << 16);
        if (!(std::fabs(number) < 512)) continue;
        expect_code(number);
        wrong += short_code_of(number) != formats::encode(formats::e2m1_fields, number) ? 1 : 0;
    }
    for (const float middle : {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F, 0.5F, 1.0F, 6.0F}) {
        for (int d = -70000; d <= 70000; ++d) {
            const std::uint32_t bits = std::bit_cast<std::uint32_t>(middle) + static_cast<std::uint32_t>(d);
            expect_code(std::bit_cast<float>(bits));
            expect_code(-std::bit_cast<float>(bits));
        }
    }
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tilewright::tests
