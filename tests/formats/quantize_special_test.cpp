// Zeros, tiny and huge numbers, infinity, NaN, empty matrices: what quantize.h promises for them.
#include "formats/matrices.h"

#include <tilewright/error.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

namespace tilewright::formats {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr const char* scaled_sides[] = {"tensor",        "row",         "1x128",    "128x128",    "1x128.ue8m0",
                                        "128x128.ue8m0", "e5m2.tensor", "e5m2.row", "e5m2.1x128", "mxfp8",
                                        "e5m2.1x32",     "mxfp4",       "nvfp4"};

OperandRecipe side(const std::string& text) { return *parse_operand_recipe(text); }

/// A matrix of one row.
struct Row {
    explicit Row(const std::vector<double>& numbers, Format format = Format::f32)
        : source(format, {1, std::ssize(numbers)}) {
        for (std::int64_t j = 0; j < source.columns(); ++j) source.set(0, 0, j, numbers[static_cast<std::size_t>(j)]);
    }
    void quantize(const QuantizeOptions& options) { operand = tilewright::quantize(source.tensor(), options); }
    double value(std::int64_t j) const { return value_of(operand.operand().values, 0, 0, j); }
    double scale(std::int64_t j) const { return scale_of(operand, 0, 0, j); }
    std::vector<double> back() const {
        Matrix out(Format::f32, source.shape());
        dequantize(operand, out.tensor());
        std::vector<double> numbers;
        for (std::int64_t j = 0; j < source.columns(); ++j) numbers.push_back(out.get(0, 0, j));
        return numbers;
    }
    Matrix source;
    OwnedOperand operand;
};

class Scaled : public testing::TestWithParam<const char*> {
protected:
    static OperandRecipe recipe() { return side(GetParam()); }
    static bool has_nan() { return recipe().values != Format::e2m1; }
};

INSTANTIATE_TEST_SUITE_P(Sides, Scaled, testing::ValuesIn(scaled_sides), [](const auto& tested) {
    std::string text = tested.param;
    std::replace(text.begin(), text.end(), '.', '_');
    return text;
});

TEST_P(Scaled, ZerosHaveScaleOne) {
    for (const bool round_up : {false, true}) {
        Row row(std::vector<double>(256, 0.0));
        row.source.set(0, 0, 3, -0.0);
        row.quantize({.recipe = recipe(), .round_up = round_up});
        for (std::int64_t j = 0; j < 256; ++j) {
            EXPECT_EQ(row.scale(j), 1);
            EXPECT_TRUE(same_number(row.back()[static_cast<std::size_t>(j)], j == 3 ? -0.0 : 0.0));
        }
    }
}

TEST_P(Scaled, AZeroBlockAmongOthersStaysZero) {
    std::vector<double> numbers(384, 0.0);
    numbers[200] = 3;
    Row row(numbers);
    row.quantize({.recipe = recipe()});
    for (std::size_t j = 0; j < numbers.size(); ++j) {
        EXPECT_NEAR(row.back()[j], numbers[j], j == 200 ? 3.0 / 8 : 0);
    }
}

TEST_P(Scaled, NanAndInfinityStayVisibleAndSpoilNoNeighbour) {
    const int block = k_block(recipe().granularity);
    for (const double strange : {not_a_number, infinity, -infinity}) {
        std::vector<double> numbers(512);
        for (std::size_t j = 0; j < numbers.size(); ++j) numbers[j] = std::sin(static_cast<double>(j)) + 1.5;
        Row clean(numbers);
        clean.source.set(0, 0, 130, 0);
        clean.quantize({.recipe = recipe()});
        numbers[130] = strange;
        Row row(numbers);
        row.quantize({.recipe = recipe()});
        const std::vector<double> back = row.back();
        for (std::int64_t j = 0; j < 512; ++j) {
            const bool same_block = block == 0 || j / block == 130 / block;
            const double given = back[static_cast<std::size_t>(j)];
            if (j == 130) {
                const bool keeps_infinity = recipe().values == Format::e5m2 && std::isinf(strange);
                EXPECT_TRUE(same_number(given, keeps_infinity ? strange : not_a_number)) << given;
            } else if (!has_nan() && same_block) {
                EXPECT_TRUE(std::isnan(given)) << given;
            } else {
                EXPECT_EQ(row.scale(j), clean.scale(j));
                EXPECT_EQ(given, clean.back()[static_cast<std::size_t>(j)]);
            }
        }
    }
}

TEST_P(Scaled, NothingButNanIsNan) {
    Row row(std::vector<double>(128, not_a_number));
    row.quantize({.recipe = recipe()});
    for (const double given : row.back()) EXPECT_TRUE(std::isnan(given));
}

TEST_P(Scaled, TinyNumbersNeitherSaturateNorDivideByZero) {
    // From the smallest subnormal of f32 upwards; a second element is larger.
    const Fields& f = fields(recipe().values);
    for (const bool round_up : {false, true}) {
        for (int exponent = -149; exponent < -90; ++exponent) {
            std::vector<double> numbers(128, 0.0);
            numbers[0] = std::ldexp(1.0, exponent);
            numbers[1] = -1.5 * numbers[0] >= -std::ldexp(1.0, -149) ? 0 : -1.5 * numbers[0];
            Row row(numbers);
            row.quantize({.recipe = recipe(), .round_up = round_up});
            EXPECT_GE(row.scale(0), std::ldexp(1.0, -127));
            for (std::size_t j = 0; j < 2; ++j) {
                // Half a unit in the last place of the quotient, the least one being that of subnormals.
                const double quotient = std::abs(numbers[j]) / row.scale(0);
                const double unit =
                    std::ldexp(1.0, std::max(quotient > 0 ? std::ilogb(quotient) : -1000, f.smallest_exponent()) -
                                        f.mantissa_bits);
                EXPECT_LE(std::abs(row.back()[j] - numbers[j]), (1 + 1e-6) * row.scale(0) * unit / 2) << exponent;
            }
        }
    }
}

TEST_P(Scaled, HugeNumbersStayFinite) {
    const double huge = std::numeric_limits<float>::max();
    for (const bool round_up : {false, true}) {
        std::vector<double> numbers(128, 1.0);
        numbers[5] = -huge;
        Row row(numbers);
        row.quantize({.recipe = recipe(), .round_up = round_up});
        EXPECT_TRUE(std::isfinite(row.scale(5)));
        // MX's floor rule may saturate by a factor of 2^8 * 1.75 / (2^9) at most: to 448/512 of the number, 6/8 of
        // e2m1.
        const double product = row.value(5) * row.scale(5);
        EXPECT_LE(product, -0.74 * huge);
        EXPECT_GE(product, -1.07 * huge);
    }
}

TEST(Quantize, MxFollowsTheFloorRule) {
    // floor(log2(500)) - 8 = 0, so 500 saturates at 448; rounded up it has scale 2 and is 250, encoded 256.
    Row row({500, 1, -500, 3});
    row.quantize({.recipe = side("mxfp8")});
    EXPECT_EQ(row.scale(0), 1);
    EXPECT_EQ(row.back(), (std::vector<double>{448, 1, -448, 3}));
    row.quantize({.recipe = side("mxfp8"), .round_up = true});
    EXPECT_EQ(row.scale(0), 2);
    EXPECT_EQ(row.back(), (std::vector<double>{512, 1, -512, 3}));
}

TEST(Quantize, FormatsWithoutScalesOverflowToInfinity) {
    Row row({1e30, -70000, 1, not_a_number});
    row.quantize({.recipe = side("f16")});
    EXPECT_EQ(row.value(0), infinity);
    EXPECT_EQ(row.value(1), -infinity);
    EXPECT_EQ(row.value(2), 1);
    EXPECT_TRUE(std::isnan(row.value(3)));
}

TEST(Quantize, DeepGemmFloorsAmaxAndMultipliesByTheReciprocal) {
    Row zeros(std::vector<double>(128, 0.0));
    zeros.quantize({.recipe = side("1x128"), .deep_gemm = true});
    EXPECT_EQ(zeros.scale(0), 1e-4F / 448.0F);
    zeros.quantize({.recipe = side("1x128"), .round_up = true, .deep_gemm = true});
    EXPECT_EQ(zeros.scale(0), std::ldexp(1.0, -22));  // 2^-22 = 2.38e-7, above 1e-4 / 448 = 2.23e-7

    // ceil_to_ue8m0 clamps the exponent of infinity and NaN to 254.
    for (const double strange : {infinity, not_a_number}) {
        Row row({strange, 1});
        row.quantize({.recipe = side("1x128"), .deep_gemm = true});
        EXPECT_TRUE(std::isnan(row.back()[0]) && std::isnan(row.back()[1]));
        row.quantize({.recipe = side("1x128.ue8m0"), .deep_gemm = true});
        EXPECT_EQ(row.scale(0), std::ldexp(1.0, 127));
        EXPECT_TRUE(std::isnan(row.value(0)));
        EXPECT_EQ(row.value(1), 0);
    }
}

TEST(Quantize, DeepGemmsProductAndADivisionDifferWhereTheyShould) {
    // Ties of e4m3 times the scale: an error of the reciprocal decides which way they go.
    int differences = 0;
    for (int i = 1; i < 200; ++i) {
        const float amax = 1 + static_cast<float>(i) / 7;
        const float scale = amax / 448.0F;
        for (const float tie : {17.0F, 19.0F, 23.0F, 29.0F}) {
            Row row({amax, tie * scale});
            const auto x = static_cast<float>(row.source.get(0, 0, 1));
            const float by_division = decode(e4m3_fields, encode(e4m3_fields, x / scale));
            const float by_reciprocal = decode(e4m3_fields, encode(e4m3_fields, x * (1.0F / scale)));
            row.quantize({.recipe = side("tensor")});
            EXPECT_EQ(row.value(1), by_division);
            row.quantize({.recipe = side("tensor"), .deep_gemm = true});
            EXPECT_EQ(row.value(1), by_reciprocal);
            differences += by_division != by_reciprocal ? 1 : 0;
        }
    }
    EXPECT_GT(differences, 20);
}

TEST(Dequantize, RoundsOnceToNarrowFormats) {
    // Products close to a tie of bf16 that f32 would round to the tie itself.
    int traps = 0;
    for (int i = 0; i < 2000; ++i) {
        const double tie = 1 + (2 * (i % 128) + 1) / 256.0;
        const double value = 1.125 + i % 7 * 0.125;
        const auto scale = static_cast<float>(tie / value);
        const double product = value * scale;
        if (product == tie || static_cast<float>(product) != tie) continue;
        ++traps;
        Row row({value, value});
        row.quantize({.recipe = side("tensor"), .round_up = true});
        ASSERT_EQ(row.value(0) * row.scale(0), value);
        store(row.operand.operand().scales.data, Format::f32, 0, scale * value / row.value(0));
        Matrix out(Format::bf16, {1, 2});
        dequantize(row.operand, out.tensor());
        const double expected = decode(bf16_fields, encode(bf16_fields, row.value(0) * row.scale(0)));
        EXPECT_EQ(out.get(0, 0, 0), expected) << product;
    }
    EXPECT_GT(traps, 20);
}

TEST(Quantize, DeepGemmRoundsTiesOfFp4TowardsZero) {
    Row row({6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25, -0.75, -5, 0.26});
    row.quantize({.recipe = side("mxfp4"), .deep_gemm = true});
    const std::vector<double> expected{6, 0, 0.5, 1, 1.5, 2, 3, 4, 0, -0.5, -4, 0.5};
    ASSERT_EQ(row.scale(0), 1);
    for (std::size_t j = 0; j < expected.size(); ++j) {
        EXPECT_TRUE(same_number(row.value(static_cast<std::int64_t>(j)), expected[j])) << j;
    }
}

TEST(Quantize, OneTensorScaleMayServeAllGroups) {
    for (const char* name : {"tensor", "nvfp4"}) {
        Matrix source(Format::f32, {2, 4, 32});
        std::int64_t count = 0;
        source.fill([&] { return static_cast<double>(count++ % 200); });
        const OwnedOperand own({2, 4, 32}, side(name));
        Operand out = own;
        Tensor& shared = out.granularity == Granularity::tensor ? out.scales : out.tensor_scale;
        shared.shape = {1};
        quantize(source.tensor(), {.recipe = side(name)}, out);
        const double divisor = out.granularity == Granularity::tensor ? 448 : 2688;
        EXPECT_EQ(load(shared.data, Format::f32, 0), 199 / static_cast<float>(divisor));
        Matrix back(Format::f32, {2, 4, 32});
        dequantize(out, back.tensor());
        for (std::int64_t g = 0; g < 2; ++g) EXPECT_NEAR(back.get(g, 0, 9), source.get(g, 0, 9), 16);
    }
}

TEST(Quantize, EmptyMatricesSucceed) {
    for (const char* name : {"tensor", "row", "1x128", "128x128", "mxfp4", "nvfp4", "bf16"}) {
        for (const Dims& shape : {Dims{0, 4}, Dims{3, 0}, Dims{0, 0}, Dims{0, 3, 4}, Dims{2, 0, 4}, Dims{2, 3, 0}}) {
            const Tensor source{.data = nullptr, .format = Format::f32, .shape = shape, .strides = shape};
            const OwnedOperand out = quantize(source, {.recipe = side(name)});
            dequantize(out, source);
            const Tensor& scales = out.operand().scales;
            for (std::int64_t i = 0; scales.shape.rank() == 1 && i < scales.shape[0]; ++i) {
                EXPECT_EQ(load(scales.data, scales.format, i), 1) << name << to_string(shape);
            }
        }
    }
}

TEST(Quantize, MemoryOfAnOwnedOperandIsAligned) {
    const OwnedOperand operand({3, 5, 18}, side("nvfp4"));
    for (const Tensor* tensor :
         {&operand.operand().values, &operand.operand().scales, &operand.operand().tensor_scale}) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->data) % 128, 0U);
    }
    EXPECT_EQ(operand.operand().scales.shape, (Dims{3, 5, 2}));
    EXPECT_EQ(operand.operand().tensor_scale.shape, (Dims{3}));
}

// Views of a temporary's memory do not compile; references to it, for the length of a call, do.
template <class Owned, class View>
constexpr bool lends_no_temporary = std::is_convertible_v<const Owned&, View>&& std::is_convertible_v<Owned&, View>&&
                                        std::is_convertible_v<Owned, const View&> &&
                                    !std::is_convertible_v<Owned, View> && !std::is_convertible_v<const Owned, View> &&
                                    !std::is_assignable_v<View&, Owned>;
static_assert(lends_no_temporary<OwnedOperand, Operand>);
static_assert(lends_no_temporary<OwnedPackedWeights, PackedWeights>);

}  // namespace
}  // namespace tilewright::formats
