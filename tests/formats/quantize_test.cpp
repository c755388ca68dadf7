// Quantizers and dequantizers against a scalar transcription of quantize.h. Varied are recipes, options, source
// formats, memory orders and sizes that fill no block. Also the properties that users rely on.
#include "formats/matrices.h"
#include "sample.h"

#include <tilewright/error.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

namespace tilewright::formats {
namespace {

const std::vector<OperandRecipe>& all_sides() {
    static const std::vector<OperandRecipe> list = [] {
        std::vector<OperandRecipe> sides;
        for (const Recipe& recipe : all_recipes()) {
            for (const OperandRecipe& side : {recipe.a, recipe.b}) {
                if (std::find(sides.begin(), sides.end(), side) == sides.end()) sides.push_back(side);
            }
        }
        return sides;
    }();
    return list;
}

double largest(Format format) { return decode(fields(format), fields(format).largest()); }

double power_at_least(double number) {
    int exponent = 0;
    const double fraction = std::frexp(number, &exponent);  // number = fraction * 2^exponent, fraction in [0.5, 1)
    return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

/// quantize.h, transcribed: the scale of a block with this largest magnitude.
double expected_scale(const QuantizeOptions& options, double amax, double tensor_scale) {
    const auto& [values, granularity, scales] = options.recipe;
    const bool power = options.round_up || scales == Format::ue8m0;
    if (options.deep_gemm) {
        const float scale = std::max(static_cast<float>(amax), 1e-4F) / static_cast<float>(largest(values));
        return power ? power_at_least(scale) : scale;
    }
    if (amax == 0) return 1;
    if (granularity == Granularity::block_1x32) {
        if (options.round_up) return std::max(power_at_least(amax / largest(values)), std::ldexp(1, -127));
        const int emax = values == Format::e4m3 ? 8 : values == Format::e5m2 ? 15 : 2;
        return std::ldexp(1.0, std::max(std::ilogb(amax) - emax, -127));
    }
    if (granularity == Granularity::block_1x16) {
        const float ratio = static_cast<float>(amax) / 6.0F / static_cast<float>(tensor_scale);
        const double rounded =
            options.round_up ? power_at_least(amax / 6 / tensor_scale) : double{decode_ue4m3(encode_ue4m3(ratio))};
        return std::max(rounded, std::ldexp(1, -9));
    }
    const double scale =
        power ? power_at_least(amax / largest(values)) : static_cast<float>(amax) / static_cast<float>(largest(values));
    return std::max(scale, std::ldexp(1, -126));
}

double expected_tensor_scale(const QuantizeOptions& options, double amax) {
    if (amax == 0) return 1;
    const double scale = options.round_up ? power_at_least(amax / (256 * 6)) : static_cast<float>(amax) / 2688.0F;
    return std::max(scale, std::ldexp(1, -117));
}

/// The largest magnitude in a rectangle of one group.
double amax_of(const Matrix& source, std::int64_t group, std::int64_t row, std::int64_t column, std::int64_t rows,
               std::int64_t columns) {
    double amax = 0;
    for (std::int64_t i = row; i < std::min(row + rows, source.rows()); ++i) {
        for (std::int64_t j = column; j < std::min(column + columns, source.columns()); ++j) {
            amax = std::max(amax, std::abs(source.get(group, i, j)));
        }
    }
    return amax;
}

/// Ties of DeepGEMM's fp4 cast go towards zero, and it has no -0.
double deep_gemm_fp4(float number) {
    double nearest = 0;
    for (const double candidate : {0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}) {
        if (std::abs(std::abs(number) - candidate) < std::abs(std::abs(number) - nearest)) nearest = candidate;
    }
    return number < 0 && nearest != 0 ? -nearest : nearest;
}

double expected_value(const QuantizeOptions& options, double number, double scale) {
    const Format format = options.recipe.values;
    if (options.recipe.granularity == Granularity::none) {
        const Overflow beyond = is_fp8(format) ? Overflow::saturate_finite : Overflow::propagate;
        return decode(fields(format), encode(fields(format), number, beyond));
    }
    const auto x = static_cast<float>(number);
    const auto s = static_cast<float>(scale);
    const float quotient = options.deep_gemm ? x * (1.0F / s) : x / s;
    if (options.deep_gemm && format == Format::e2m1) return deep_gemm_fp4(quotient);
    return decode(fields(format), encode(fields(format), quotient, Overflow::saturate));
}

void expect_as_documented(const Matrix& source, const QuantizeOptions& options, const Operand& out) {
    const Granularity granularity = options.recipe.granularity;
    const std::int64_t rows = row_block(granularity) > 0 ? row_block(granularity) : source.rows();
    const std::int64_t columns = k_block(granularity) > 0 ? k_block(granularity) : source.columns();
    for (std::int64_t g = 0; g < source.groups(); ++g) {
        double over = 1;
        if (granularity == Granularity::block_1x16) {
            over = expected_tensor_scale(options, amax_of(source, g, 0, 0, source.rows(), source.columns()));
        }
        for (std::int64_t row = 0; row < source.rows(); row += rows) {
            for (std::int64_t column = 0; column < source.columns(); column += columns) {
                const double amax = amax_of(source, g, row, column, rows, columns);
                const bool scaleless = granularity == Granularity::none;
                const double scale = scaleless ? 1 : expected_scale(options, amax, over) * over;
                ASSERT_EQ(scale_of(out, g, row, column), scale) << row << ", " << column << " amax " << amax;
                for (std::int64_t i = row; i < std::min(row + rows, source.rows()); ++i) {
                    for (std::int64_t j = column; j < std::min(column + columns, source.columns()); ++j) {
                        const double expected = expected_value(options, source.get(g, i, j), scale);
                        const double given = value_of(out.values, g, i, j);
                        ASSERT_TRUE(same_number(given, expected))
                            << "got " << given << "; expected " << expected << " for " << source.get(g, i, j) << " at "
                            << g << ", " << i << ", " << j << " with scale " << scale;
                    }
                }
            }
        }
    }
}

std::vector<QuantizeOptions> options_of(const OperandRecipe& recipe) {
    std::vector<QuantizeOptions> list{{.recipe = recipe}, {.recipe = recipe, .round_up = true}};
    const bool scaled = recipe.granularity != Granularity::none && recipe.granularity != Granularity::block_1x16;
    if (scaled && recipe.values != Format::e5m2) {
        list.push_back({.recipe = recipe, .deep_gemm = true});
        list.push_back({.recipe = recipe, .round_up = true, .deep_gemm = true});
    }
    return list;
}

/// An operand in memory of the given order.
struct Storage {
    Storage(const OperandRecipe& recipe, const Dims& shape, Order order)
        : values(recipe.values, shape, order),
          scales(recipe.scales, scale_shape(recipe.granularity, shape), order),
          tensor_scale(Format::f32, scale_shape(Granularity::tensor, shape)) {
        operand.values = values.tensor();
        operand.granularity = recipe.granularity;
        if (recipe.granularity != Granularity::none) operand.scales = scales.tensor();
        if (recipe.granularity == Granularity::block_1x16) operand.tensor_scale = tensor_scale.tensor();
    }
    Matrix values;
    Matrix scales;
    Matrix tensor_scale;
    Operand operand;
};

class EachSide : public testing::TestWithParam<OperandRecipe> {};

INSTANTIATE_TEST_SUITE_P(Recipes, EachSide, testing::ValuesIn(all_sides()), [](const auto& tested) {
    std::string text = name(tested.param);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
    return text;
});

TEST_P(EachSide, FollowsTheDocumentation) {
    tests::Sample sample(3);
    for (const Dims& shape : {Dims{1, 2}, Dims{130, 20}, Dims{34, 290}, Dims{2, 6, 272}, Dims{130, 386}}) {
        Matrix source(Format::f32, shape);
        source.fill_randomly(1);
        for (const QuantizeOptions& options : options_of(GetParam())) {
            if (!sample.takes_next()) continue;
            SCOPED_TRACE(to_string(shape) + (options.round_up ? " up" : "") + (options.deep_gemm ? " DeepGEMM" : ""));
            expect_as_documented(source, options, quantize(source.tensor(), options));
        }
    }
}

TEST_P(EachSide, TakesEveryFormatInAnyOrderToAnyOrder) {
    tests::Sample sample(5);
    for (const Dims& shape : {Dims{34, 130}, Dims{2, 130, 18}}) {
        for (const Format format : {Format::f32, Format::bf16, Format::f16}) {
            for (const Order from : all_orders) {
                Matrix source(format, shape, from);
                source.fill_randomly(2);
                for (const Order to : all_orders) {
                    if (!sample.takes_next()) continue;
                    const Storage out(GetParam(), shape, to);
                    quantize(source.tensor(), {.recipe = GetParam()}, out.operand);
                    SCOPED_TRACE(to_string(shape) + std::string(name(format)) + std::to_string(int(from)) +
                                 std::to_string(int(to)));
                    expect_as_documented(source, {.recipe = GetParam()}, out.operand);
                    EXPECT_TRUE(out.values.gaps_are_untouched());
                }
            }
        }
    }
}

TEST_P(EachSide, DequantisesToTheProductRoundedOnce) {
    const Dims shape{2, 130, 34};
    Matrix source(Format::f32, shape);
    source.fill_randomly(3);
    for (const Order order : all_orders) {
        const Storage storage(GetParam(), shape, order);
        quantize(source.tensor(), {.recipe = GetParam()}, storage.operand);
        for (const Format format : {Format::f32, Format::bf16, Format::f16}) {
            Matrix out(format, shape, order);
            dequantize(storage.operand, out.tensor());
            for (std::int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i) {
                const std::int64_t g = i / shape[2] / shape[1], row = i / shape[2] % shape[1], column = i % shape[2];
                const double product =
                    value_of(storage.operand.values, g, row, column) * scale_of(storage.operand, g, row, column);
                const double expected = decode(fields(format), encode(fields(format), product, Overflow::propagate));
                ASSERT_TRUE(same_number(out.get(g, row, column), expected)) << name(format) << " " << product;
            }
        }
    }
}

TEST_P(EachSide, ErrsByHalfAUnitInTheLastPlaceAtMost) {
    const Dims shape{64, 256};
    Matrix source(Format::f32, shape);
    source.fill_randomly(4);
    const OwnedOperand out = quantize(source.tensor(), {.recipe = GetParam(), .round_up = true});
    Matrix back(Format::f32, shape);
    dequantize(out, back.tensor());
    const Fields& f = fields(GetParam().values);
    for (std::int64_t row = 0; row < shape[0]; ++row) {
        for (std::int64_t column = 0; column < shape[1]; ++column) {
            const double x = source.get(0, row, column);
            const double scale = scale_of(out, 0, row, column);  // a power of two: only the encoding rounds
            const int exponent = std::max(x == 0 ? -1000 : std::ilogb(x / scale), f.smallest_exponent());
            const double unit = scale * std::ldexp(1.0, exponent - f.mantissa_bits);
            ASSERT_LE(std::abs(back.get(0, row, column) - x), unit / 2) << x;
        }
    }
}

TEST_P(EachSide, KeepsWhatIsRepresentable) {
    // Codes of the format, the largest in every block, so that the scales are the power of two that is put on top.
    const OperandRecipe recipe = GetParam();
    const double top = largest(recipe.values);
    int compared = 0;
    for (const bool round_up : {false, true}) {
        for (const int exponent : {-20, -3, 0, 5}) {
            if (recipe.granularity == Granularity::none && recipe.values == Format::f16 && exponent != 0) continue;
            Matrix source(Format::f32, {130, 256});
            std::mt19937 random(5);
            std::int64_t count = 0;
            const Fields& f = fields(recipe.values);
            source.fill([&] {
                double value = decode(f, random() & (2 * f.sign_bit() - 1));
                while (!std::isfinite(value)) value = decode(f, random() & (2 * f.sign_bit() - 1));
                return (count++ % 16 == 0 ? top : value) *
                       (recipe.granularity == Granularity::none ? 1 : std::ldexp(1, exponent));
            });
            // NVFP4's scales are exact only as powers of two: amax / 2688 is none, amax / 1536 is.
            if (recipe.granularity == Granularity::block_1x16 && !round_up) continue;
            ++compared;
            Matrix back(Format::f32, {130, 256});
            dequantize(quantize(source.tensor(), {.recipe = recipe, .round_up = round_up}), back.tensor());
            for (std::int64_t i = 0; i < 130; ++i) {
                for (std::int64_t j = 0; j < 256; ++j) {
                    ASSERT_TRUE(same_number(back.get(0, i, j), source.get(0, i, j))) << source.get(0, i, j);
                }
            }
        }
    }
    EXPECT_GE(compared, 2);
}

TEST_P(EachSide, TreatsEachGroupAsIfAlone) {
    Matrix source(Format::f32, {3, 34, 290});
    source.fill_randomly(6);
    const OwnedOperand together = quantize(source.tensor(), {.recipe = GetParam()});
    for (std::int64_t g = 0; g < 3; ++g) {
        Tensor group = source.tensor();
        group.data = static_cast<std::byte*>(group.data) + g * group.strides[0] * 4;
        group.shape = {34, 290};
        group.strides = {290, 1};
        const OwnedOperand alone = quantize(group, {.recipe = GetParam()});
        for (std::int64_t i = 0; i < 34; ++i) {
            for (std::int64_t j = 0; j < 290; ++j) {
                ASSERT_EQ(scale_of(alone, 0, i, j), scale_of(together, g, i, j));
                ASSERT_TRUE(same_number(value_of(alone.operand().values, 0, i, j),
                                        value_of(together.operand().values, g, i, j)));
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::formats
