// The quantizers of a training step on the CPU:
// - against `quantize` on the matrix, its transpose and its groups;
// - SwiGLU against float64;
// - the transposition of codes against their values.
#include "formats/matrices.h"
#include "formats/swiglu.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/quantize_tokens.h>

#include <cmath>

namespace tilewright::formats {
namespace {

constexpr Granularity granularities[] = {Granularity::tensor, Granularity::row, Granularity::block_1x128,
                                         Granularity::block_128x128};

Tensor part(const Tensor& tensor, std::int64_t first, std::int64_t rows) {
    Tensor view = tensor;
    view.shape[0] = rows;
    view.data = static_cast<std::byte*>(tensor.data) + first * tensor.strides[0] * bits(tensor.format) / 8;
    return view;
}

Tensor turned(const Tensor& tensor) {
    Tensor view = tensor;
    view.shape = {tensor.shape[1], tensor.shape[0]};
    view.strides = {tensor.strides[1], tensor.strides[0]};
    return view;
}

Operand operand(const Matrix& values, Granularity granularity, const Matrix& scales) {
    return {values.tensor(), granularity, scales.tensor(), {}};
}

/// Codes and scales of some rows and columns of an operand are those of another one from its beginning.
void expect_part(const Operand& all, std::int64_t group, std::int64_t column, const Operand& part) {
    for (std::int64_t i = 0; i < part.values.shape[0]; ++i) {
        for (std::int64_t j = 0; j < part.values.shape[1]; ++j) {
            ASSERT_EQ(scale_of(all, group, i, column + j), scale_of(part, 0, i, j)) << i << ", " << j;
            ASSERT_TRUE(same_number(value_of(all.values, 0, i, column + j), value_of(part.values, 0, i, j)));
        }
    }
}

TEST(QuantizeTokens, RowsAreThoseOfTheMatrixAndColumnsThoseOfItsTransposedGroups) {
    const std::vector<std::int64_t> ends{5, 5, 140, 300};
    Matrix x(Format::bf16, {300, 150});
    x.fill_randomly(1);
    for (const Granularity granularity : granularities) {
        SCOPED_TRACE(name(granularity));
        const bool squares = granularity == Granularity::block_128x128;
        const OperandRecipe recipe{Format::e4m3, granularity};
        Matrix rows(Format::e4m3, {300, 150}), columns(Format::e4m3, {150, column_limit(300, 4)});
        Matrix row_scales(Format::f32, scale_shape(granularity, rows.shape()));
        Dims column_scale_shape = scale_shape(granularity, columns.shape());
        if (granularity == Granularity::row) column_scale_shape = {4, 150};
        if (granularity == Granularity::tensor) column_scale_shape = {4};
        Matrix column_scales(Format::f32, column_scale_shape);
        TokenOperand by_rows{.operand = operand(rows, granularity, row_scales)};
        if (squares) by_rows = {};
        const Operand by_columns = operand(columns, granularity, column_scales);
        quantize_tokens({.x = x.tensor(), .ends = row_major(ends.data(), Format::i64, {4})}, by_rows, {by_columns});
        if (!squares) expect_part(by_rows.operand, 0, 0, quantize(x.tensor(), {.recipe = recipe}));
        std::int64_t column = 0;
        for (std::int64_t g = 0; g < 4; ++g) {
            const std::int64_t begin = g == 0 ? 0 : ends[g - 1], tokens = ends[g] - begin;
            const OwnedOperand alone = quantize(turned(part(x.tensor(), begin, tokens)), {.recipe = recipe});
            expect_part(by_columns, g, column, alone);
            for (std::int64_t i = 0; i < 150; ++i) {
                for (std::int64_t j = tokens; j < (tokens + 127) / 128 * 128; ++j) {
                    ASSERT_EQ(value_of(columns.tensor(), 0, i, column + j), 0);
                }
            }
            column += (tokens + 127) / 128 * 128;
        }
        EXPECT_EQ(static_cast<const std::uint8_t*>(columns.tensor().data)[column], 0xCD) << "written behind the groups";
        if (granularity == Granularity::row) {
            EXPECT_EQ(column_scales.get(0, 1, 7), 1) << "an empty group";
        }
    }
}

TEST(QuantizeTokens, FoldedFactorsAreMultipliedBeforeTheScaleIsFound) {
    Matrix x(Format::f32, {140, 130}), product(Format::f32, {140, 130});
    Matrix tokens(Format::f32, {140, 1}), features(Format::f32, {130, 1});
    x.fill_randomly(2);
    tokens.fill_randomly(3);
    features.fill_randomly(4);
    for (int i = 0; i < 140; ++i) {
        for (int j = 0; j < 130; ++j) {
            const float once = static_cast<float>(x.get(0, i, j)) * static_cast<float>(tokens.get(0, i, 0));
            product.set(0, i, j, once * static_cast<float>(features.get(0, j, 0)));
        }
    }
    Matrix values(Format::e4m3, {130, 140}), scales(Format::f32, {2, 2});
    const Operand squares = operand(values, Granularity::block_128x128, scales);
    quantize_tokens({.x = x.tensor()}, {},
                    {.operand = squares,
                     .token_factors = row_major(tokens.tensor().data, Format::f32, {140}),
                     .feature_factors = row_major(features.tensor().data, Format::f32, {130})},
                    true);
    const QuantizeOptions options{.recipe = {Format::e4m3, Granularity::block_128x128}, .round_up = true};
    expect_part(squares, 0, 0, quantize(turned(product.tensor()), options));
}

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(QuantizeTokens, SwiGluIsThatOfFloat64) {
    for (const SwiGlu& form : {SwiGlu{}, SwiGlu{.alpha = 1.702F, .beta = 1, .limit = 7}}) {
        const SwiGluRule rule{form.alpha, form.beta, form.limit};
        for (float gate = -20; gate < 20; gate += 0.37F) {
            for (float up = -9; up < 9; up += 1.3F) {
                const double g = std::min(gate, form.limit);
                const double u = double{std::clamp(up, -form.limit, form.limit)} + form.beta;
                const double s = exact_sigmoid(double{form.alpha} * g);
                const double h = g * s * u;
                EXPECT_NEAR(swiglu(gate, up, rule), h, 2e-6 * std::abs(h)) << gate << ", " << up;
                const SwiGluGradient both = swiglu_gradient(gate, up, 2, rule);
                const double slope = 2 * u * (s + form.alpha * g * s * (1 - s));
                const bool up_clamped = std::abs(up) > form.limit;
                const double bound = 4e-6 * std::abs(u) * (1 + std::abs(g));
                EXPECT_NEAR(both.gate, gate > form.limit ? 0 : slope, bound) << gate << ", " << up;
                EXPECT_NEAR(both.up, up_clamped ? 0 : 2 * g * s, 4e-6 * std::abs(g * s)) << gate << ", " << up;
            }
        }
        EXPECT_TRUE(std::isnan(swiglu(NAN, 1, rule)));
        EXPECT_TRUE(std::isnan(swiglu(1, NAN, rule)));
        EXPECT_TRUE(std::isnan(swiglu_gradient(NAN, 1, 1, rule).gate));
    }
    EXPECT_EQ(swiglu(INFINITY, 1, {1, 0, INFINITY}), INFINITY);
}

TEST(QuantizeTokens, GateAndUpAreHalvesOrTakeTurns) {
    Matrix halves(Format::f32, {3, 300}), turns(Format::f32, {3, 300}), gradient(Format::f32, {3, 150});
    halves.fill_randomly(5);
    gradient.fill_randomly(6);
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 150; ++j) {
            turns.set(0, i, 2 * j, halves.get(0, i, j));
            turns.set(0, i, 2 * j + 1, halves.get(0, i, 150 + j));
        }
    }
    const SwiGluRule rule{1, 0, INFINITY};
    for (const bool interleaved : {false, true}) {
        const Matrix& x = interleaved ? turns : halves;
        for (const bool is_gradient : {false, true}) {
            const std::int64_t features = is_gradient ? 300 : 150;
            Matrix h(Format::f32, {3, features}), values(Format::e4m3, {3, features}), scales(Format::f32, {3, 3});
            for (int i = 0; i < 3; ++i) {
                for (int j = 0; j < 150; ++j) {
                    const auto gate = static_cast<float>(halves.get(0, i, j));
                    const auto up = static_cast<float>(halves.get(0, i, 150 + j));
                    const SwiGluGradient both =
                        swiglu_gradient(gate, up, static_cast<float>(gradient.get(0, i, j)), rule);
                    if (!is_gradient) h.set(0, i, j, swiglu(gate, up, rule));
                    if (is_gradient) h.set(0, i, interleaved ? 2 * j : j, both.gate);
                    if (is_gradient) h.set(0, i, interleaved ? 2 * j + 1 : 150 + j, both.up);
                }
            }
            Tensor of_rows = scales.tensor();
            of_rows.shape = {3, (features + 127) / 128};
            const Operand rows{values.tensor(), Granularity::block_1x128, of_rows, {}};
            TokenSource source{.x = x.tensor(),
                               .activation = is_gradient ? Activation::swiglu_gradient : Activation::swiglu,
                               .swiglu = {.interleaved = interleaved}};
            if (is_gradient) source.gradient = gradient.tensor();
            quantize_tokens(source, {rows}, {});
            const OperandRecipe recipe{Format::e4m3, Granularity::block_1x128};
            expect_part(rows, 0, 0, quantize(h.tensor(), {.recipe = recipe}));
        }
    }
}

TEST(QuantizeTokens, TransposedCodesHaveTheirValuesUnlessTheyBecomeSubnormal) {
    Matrix x(Format::f32, {200, 150});
    std::mt19937 random(8);
    x.fill([&] { return std::ldexp(1 + double(random() % 8) / 8, int(random() % 7)); });
    for (int j = 0; j < 150; ++j) {
        x.set(0, 4, j, 0);                         // no number: its scale of 1 does not count
        x.set(0, 5, j, x.get(0, 5, j) * 0x1p-60);  // shifted to zeros
        x.set(0, 130, j, x.get(0, 130, j) * 0x1p-3);
    }
    const QuantizeOptions options{.recipe = {Format::e4m3, Granularity::block_1x128, Format::ue8m0}};
    const OwnedOperand rows = quantize(x.tensor(), options);
    const std::vector<std::int32_t> ends{130, 200};
    Matrix values(Format::e4m3, {150, 384}), scales(Format::ue8m0, {150, 3});
    const Operand columns = operand(values, Granularity::block_1x128, scales);
    transpose_codes(rows, row_major(ends.data(), Format::i32, {2}), columns);
    for (int i = 0; i < 200; ++i) {
        const int column = i < 130 ? i : 256 + i - 130;
        for (int j = 0; j < 150; ++j) {
            const double expected = i == 5 ? 0 : x.get(0, i, j);
            ASSERT_EQ(value_of(values.tensor(), 0, j, column) * scale_of(columns, 0, j, column), expected) << i << j;
        }
    }
    EXPECT_EQ(value_of(values.tensor(), 0, 0, 131), 0);
    EXPECT_LT(scale_of(columns, 0, 0, 0), 1) << "a row of zeros has scale 1, which is not the block's";
}

/// Scales of no group have no place to be written to.
TEST(QuantizeTokens, ScalesOfGroupsNeedAGroup) {
    Matrix x(Format::bf16, {5, 128}), values(Format::e4m3, {128, 128}), scales(Format::f32, {1, 128});
    const Tensor no_ends = row_major(static_cast<void*>(nullptr), Format::i32, {0});
    for (const Granularity granularity : {Granularity::row, Granularity::tensor}) {
        for (const Dims& shape : {Dims{0}, Dims{1}, Dims{0, 128}, Dims{128}}) {
            Operand columns = operand(values, granularity, scales);
            columns.scales.shape = shape;
            try {
                quantize_tokens({.x = x.tensor(), .ends = no_ends}, {}, {columns});
                FAIL() << "taken: " << to_string(shape);
            } catch (const Error& error) {
                EXPECT_NE(std::string(error.what()).find("source.ends: got [0]"), std::string::npos) << error.what();
            }
        }
    }
}

TEST(QuantizeTokens, NoTokensAndNoGroupsWriteNothing) {
    Matrix values(Format::e4m3, {128, 256}), scales(Format::f32, {128, 2}), row_scales(Format::f32, {3, 128});
    const Operand blocks = operand(values, Granularity::block_1x128, scales);
    const auto empty = [](Format format, const Dims& shape) {
        return row_major(static_cast<void*>(nullptr), format, shape);
    };
    const Tensor no_tokens = empty(Format::bf16, {0, 256});
    quantize_tokens({.x = no_tokens, .activation = Activation::swiglu}, {}, {blocks});
    quantize_tokens({.x = empty(Format::bf16, {0, 128}), .ends = empty(Format::i32, {0})}, {}, {blocks});
    EXPECT_TRUE(std::isnan(scales.get(0, 0, 0)) || scales.get(0, 0, 0) != 1);
    EXPECT_EQ(static_cast<const std::uint8_t*>(values.tensor().data)[0], 0xCD);
    const std::vector<std::int32_t> ends{0, 0, 0};
    quantize_tokens({.x = empty(Format::bf16, {0, 128}), .ends = row_major(ends.data(), Format::i32, {3})}, {},
                    {operand(values, Granularity::row, row_scales)});
    EXPECT_EQ(row_scales.get(0, 2, 127), 1);
}

std::string message(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns) {
    try {
        quantize_tokens(source, rows, columns);
    } catch (const Error& error) {
        return error.what();
    }
    return "none";
}

TEST(QuantizeTokens, MistakesAreNamed) {
    Matrix x(Format::bf16, {200, 128}), values(Format::e4m3, {200, 128}), scales(Format::f32, {200, 1});
    Matrix narrow(Format::e4m3, {128, 200}), narrow_scales(Format::f32, {128, 2});
    const std::vector<std::int32_t> ends{130, 200};
    const TokenOperand rows{operand(values, Granularity::block_1x128, scales)};
    const TokenOperand columns{operand(narrow, Granularity::block_1x128, narrow_scales)};
    TokenSource source{.x = x.tensor()};
    EXPECT_NE(message(source, {}, {}).find("Nothing would be written"), std::string::npos);
    source.gradient = x.tensor();
    EXPECT_NE(message(source, rows, {}).find("Only swiglu_gradient reads it"), std::string::npos);
    source.gradient = {};
    source.ends = row_major(ends.data(), Format::i32, {2});
    EXPECT_NE(message(source, rows, columns).find("columns.values: got [128, 200]; expected [128, a multiple of 128]"),
              std::string::npos)
        << message(source, rows, columns);
    TokenOperand squares = rows;
    squares.operand.granularity = Granularity::block_128x128;
    EXPECT_NE(message(source, squares, {}).find("Blocks of 128x128 start again in each group"), std::string::npos);
    source.activation = Activation::swiglu_gradient;
    EXPECT_NE(message(source, rows, {}).find("source.gradient: got nothing; expected [200, 64]"), std::string::npos);
    source.activation = Activation::swiglu;
    EXPECT_NE(message(source, rows, {}).find("rows.values: got [200, 128]; expected [200, 64]"), std::string::npos);
    source.index = row_major(ends.data(), Format::i32, {2});
    EXPECT_NE(message(source, rows, {}).find("source.index: got [2]; expected nothing with an activation"),
              std::string::npos);
    source.activation = Activation::none;
    EXPECT_NE(message(source, rows, {}).find("rows.values: got [200, 128]; expected [2, 128]"), std::string::npos);
    source.x.shape = {0, 128};
    EXPECT_NE(message(source, rows, {}).find("source.x: got [0, 128]; expected at least one row"), std::string::npos);
    source.index.format = Format::f32;
    EXPECT_NE(message(source, rows, {}).find("source.index: got f32; expected i32"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::formats
