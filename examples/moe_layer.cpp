// The forward pass of one MoE layer: up projection, SwiGLU, down projection. Tokens are sorted by expert.
// docs/moe_layer.md explains it in Python, with the backward pass.
#include <tilewright/tilewright.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

using namespace tilewright;

namespace {

constexpr int hidden = 256;
constexpr int inner = 384;
const std::vector<std::int32_t> ends{14, 14, 60, 137};  // expert 1 has no tokens
const int experts = static_cast<int>(ends.size());
const int tokens = ends.back();

/// bf16 is the upper half of an f32.
float from_bf16(std::uint16_t code) {
    float value = 0;
    decode(row_major(&code, Format::bf16, {1}), row_major(&value, Format::f32, {1}));
    return value;
}

struct Layer {
    std::vector<float> x = std::vector<float>(static_cast<std::size_t>(tokens) * hidden);
    std::vector<float> up = std::vector<float>(static_cast<std::size_t>(experts) * 2 * inner * hidden);
    std::vector<float> down = std::vector<float>(static_cast<std::size_t>(experts) * hidden * inner);
};

Layer random_layer() {
    Layer layer;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : layer.x) value = normal(random);
    for (float& value : layer.up) value = normal(random) / std::sqrt(float{hidden});
    for (float& value : layer.down) value = normal(random) / std::sqrt(float{inner});
    return layer;
}

/// D [tokens, n]: the rows of A, multiplied by the weights of their expert.
std::vector<std::uint16_t> through_experts(const Operand& a, const Operand& b, int n) {
    std::vector<std::uint16_t> d(static_cast<std::size_t>(tokens) * n);
    run({.a = a,
         .b = b,
         .d = row_major(d.data(), Format::bf16, {tokens, n}),
         .groups = {.grouping = Grouping::m_grouped_offsets, .sizes = row_major(ends.data(), Format::i32, {experts})}});
    return d;
}

std::vector<std::uint16_t> forward(const Layer& layer) {
    const Recipe recipe = recipe_named("1x128:128x128");
    // Once, when the weights are loaded.
    const OwnedOperand up =
        quantize(row_major(layer.up.data(), Format::f32, {experts, 2 * inner, hidden}), {.recipe = recipe.b});
    const OwnedOperand down =
        quantize(row_major(layer.down.data(), Format::f32, {experts, hidden, inner}), {.recipe = recipe.b});

    const OwnedOperand x = quantize(row_major(layer.x.data(), Format::f32, {tokens, hidden}), {.recipe = recipe.a});
    std::vector<std::uint16_t> h = through_experts(x, up, 2 * inner);

    // SwiGLU in f32, quantized without an intermediate rounding.
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(tokens) * inner);
    std::vector<float> scales(static_cast<std::size_t>(tokens) * (inner / 128));
    const Operand activations{.values = row_major(codes.data(), Format::e4m3, {tokens, inner}),
                              .granularity = Granularity::block_1x128,
                              .scales = row_major(scales.data(), Format::f32, {tokens, inner / 128})};
    quantize_tokens({.x = row_major(h.data(), Format::bf16, {tokens, 2 * inner}), .activation = Activation::swiglu},
                    {.operand = activations}, {});
    return through_experts(activations, down, hidden);
}

/// Row `token` in double precision.
std::vector<double> exact_row(const Layer& layer, int expert, int token) {
    const auto product = [](const float* w, const auto& x, std::size_t k) {
        double sum = 0;
        for (std::size_t i = 0; i < k; ++i) sum += double{w[i]} * double(x[i]);
        return sum;
    };
    const float* const x = &layer.x[static_cast<std::size_t>(token) * hidden];
    std::vector<double> activation(inner);
    for (int i = 0; i < inner; ++i) {
        const float* const rows = &layer.up[static_cast<std::size_t>(expert) * 2 * inner * hidden];
        const double gate = product(rows + static_cast<std::size_t>(i) * hidden, x, hidden);
        const double linear = product(rows + static_cast<std::size_t>(inner + i) * hidden, x, hidden);
        activation[static_cast<std::size_t>(i)] = gate / (1 + std::exp(-gate)) * linear;
    }
    std::vector<double> y(hidden);
    for (int i = 0; i < hidden; ++i) {
        const float* const row = &layer.down[(static_cast<std::size_t>(expert) * hidden + i) * inner];
        y[static_cast<std::size_t>(i)] = product(row, activation, inner);
    }
    return y;
}

}  // namespace

int main() {
    const Layer layer = random_layer();
    const std::vector<std::uint16_t> y = forward(layer);
    double wrong = 0;
    double all = 0;
    for (int token = 0, expert = 0; token < tokens; ++token) {
        while (token >= ends[static_cast<std::size_t>(expert)]) ++expert;
        const std::vector<double> exact = exact_row(layer, expert, token);
        for (std::size_t i = 0; i < hidden; ++i) {
            const double error = double{from_bf16(y[static_cast<std::size_t>(token) * hidden + i])} - exact[i];
            wrong += error * error;
            all += exact[i] * exact[i];
        }
    }
    const double error = std::sqrt(wrong / all);
    std::printf("%d tokens through %d experts, relative error %.1f%%\n", tokens, experts, 100 * error);
    return error < 0.1 ? 0 : 1;
}
