// Calls of the quantizers for the emulator: numbers, operands in memory, and tokens with all that they may have.
#pragma once

#include "formats/matrices.h"
#include "launch/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace tilewright::tests {

using formats::Matrix;
using formats::Order;

/// Numbers whose sizes differ from row to row, with zeros, a row of zeros, and NaN and infinities.
inline void fill(Matrix& matrix, unsigned seed, bool special) {
    matrix.fill_randomly(seed);
    if (matrix.rows() > 3) {
        for (std::int64_t j = 0; j < matrix.columns(); ++j) matrix.set(0, 3, j, 0);
    }
    if (!special) return;
    std::mt19937 random(seed);
    const double wild[] = {NAN, INFINITY, -INFINITY, 1e-40, 3e38, -1e-45, 1e-30};
    for (const double number : wild) {
        if (matrix.tensor().format == Format::f16 && number > 1e5 && std::isfinite(number)) continue;
        matrix.set(0, random() % matrix.rows(), random() % matrix.columns(), number);
    }
}

/// All bytes from a tensor's first element to its last.
inline std::vector<std::uint8_t> bytes(const Tensor& tensor) {
    std::int64_t elements = 1;
    for (int i = 0; i < tensor.shape.rank(); ++i) elements += (tensor.shape[i] - 1) * tensor.strides[i];
    const auto* data = static_cast<const std::uint8_t*>(tensor.data);
    return {data, data + elements * bits(tensor.format) / 8};
}

/// An operand in memory that is compared as bytes. NVFP4 has scales of tensors.
struct Output {
    Output(const OperandRecipe& recipe, const Dims& shape, const Dims& scale_dims, Order order = Order::row_major,
           Order scale_order = Order::row_major, std::int64_t tensors = 1)
        : values(recipe.values, shape, order),
          scales(recipe.scales, scale_dims, scale_order),
          tensor_scales(Format::f32, {tensors}) {
        operand = {values.tensor(), recipe.granularity, scales.tensor(), {}};
        if (recipe.granularity == Granularity::block_1x16) operand.tensor_scale = tensor_scales.tensor();
    }
    Matrix values;
    Matrix scales;
    Matrix tensor_scales;
    Operand operand;
};

inline void expect_same(const Output& given, const Output& expected) {
    EXPECT_EQ(bytes(given.tensor_scales.tensor()), bytes(expected.tensor_scales.tensor()));
    EXPECT_EQ(bytes(given.scales.tensor()), bytes(expected.scales.tensor()));
    const std::vector<std::uint8_t> a = bytes(given.values.tensor()), b = bytes(expected.values.tensor());
    const auto first = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
    EXPECT_TRUE(a == b) << "byte " << first << " is not the CPU's";
}

inline constexpr Granularity none = Granularity::none;
inline constexpr Granularity blocks = Granularity::block_1x128;
inline constexpr Granularity squares = Granularity::block_128x128;
inline constexpr SwiGlu gpt_oss{.alpha = 1.702F, .beta = 1, .limit = 7, .interleaved = true};

struct TokenCase {
    Format source = Format::bf16;
    std::int64_t tokens = 0;
    std::int64_t features = 0;  // of x
    std::int64_t x_rows = 0;    // an index names them; 0: no index, tokens are the rows
    Activation activation = Activation::none;
    SwiGlu swiglu{};
    std::vector<std::int32_t> ends{};
    Granularity rows = blocks;     // none: no such output
    Granularity columns = blocks;  // likewise
    Format values = Format::e4m3;
    bool folds = false;       // factors of features into rows, of tokens into columns
    bool folds_both = false;  // both into both
    bool shares = false;      // factors of tokens into both, from one memory
    bool round_up = false;
};

/// The tensors of a call, and two sets of outputs.
struct TokenCall {
    explicit TokenCall(const TokenCase& c)
        : x(c.source, {c.x_rows > 0 ? c.x_rows : c.tokens, c.features}),
          gradient(c.source, {c.tokens, c.features / 2}),
          token_factors(Format::f32, {c.tokens, 1}),
          feature_factors(Format::f32, {groups(c), features(c)}) {
        fill(x, 11, c.activation == Activation::none);
        fill(gradient, 12, false);
        token_factors.fill_randomly(13);
        feature_factors.fill_randomly(14);
        source = {.x = x.tensor(), .activation = c.activation, .swiglu = c.swiglu};
        if (c.x_rows > 0) {
            std::mt19937 random(15);
            for (std::int64_t i = 0; i < c.tokens; ++i) {  // some beyond both ends
                index.push_back(static_cast<std::int32_t>(random() % (c.x_rows + 2)) - 1);
            }
            source.index = row_major(index.data(), Format::i32, {c.tokens});
        }
        if (c.activation == Activation::swiglu_gradient) source.gradient = gradient.tensor();
        if (!c.ends.empty()) source.ends = row_major(c.ends.data(), Format::i32, {groups(c)});
    }

    static std::int64_t groups(const TokenCase& c) {
        return std::max<std::int64_t>(static_cast<std::int64_t>(c.ends.size()), 1);
    }
    static std::int64_t features(const TokenCase& c) {
        return c.activation == Activation::swiglu ? c.features / 2 : c.features;
    }

    TokenOperand operand(const TokenCase& c, const Output* out, bool columns) const {
        if (out == nullptr) return {};
        TokenOperand given{.operand = out->operand};
        if (c.folds_both || c.shares || (c.folds && columns))
            given.token_factors = row_major(token_factors.tensor().data, Format::f32, {c.tokens});
        if (c.folds_both || (c.folds && !columns)) given.feature_factors = feature_factors.tensor();
        return given;
    }

    Matrix x;
    Matrix gradient;
    Matrix token_factors;
    Matrix feature_factors;
    std::vector<std::int32_t> index{};
    TokenSource source;
};

inline std::unique_ptr<Output> output(const TokenCase& c, bool columns) {
    const Granularity granularity = columns ? c.columns : c.rows;
    if (granularity == none) return nullptr;
    const std::int64_t features = TokenCall::features(c);
    const bool grouped = !c.ends.empty();
    const std::int64_t width = grouped ? column_limit(c.tokens, TokenCall::groups(c)) : c.tokens;
    const Dims shape = columns ? Dims{features, width} : Dims{c.tokens, features};
    Dims scales = scale_shape(granularity, shape);
    if (columns && grouped && granularity == Granularity::row) scales = {TokenCall::groups(c), features};
    return std::make_unique<Output>(OperandRecipe{c.values, granularity}, shape, scales);
}

}  // namespace tilewright::tests
