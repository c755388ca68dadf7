// The forward pass of one MoE layer in one call. Tokens choose experts, and the experts' results are weighted and
// summed. The page docs/moe_layer.md explains the layer in Python.
#include <tilewright/tilewright.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

using namespace tilewright;

namespace {

constexpr int tokens = 60;
constexpr int top = 2;  // experts of a token
constexpr int experts = 4;
constexpr int hidden = 256;
constexpr int inner = 384;

struct Layer {
    std::vector<float> x = std::vector<float>(std::size_t{tokens} * hidden);
    std::vector<std::int32_t> chosen = std::vector<std::int32_t>(std::size_t{tokens} * top);
    std::vector<float> weights = std::vector<float>(std::size_t{tokens} * top);
    std::vector<float> up = std::vector<float>(std::size_t{experts} * 2 * inner * hidden);  // gates, then ups
    std::vector<float> down = std::vector<float>(std::size_t{experts} * hidden * inner);
};

Layer random_layer() {
    Layer layer;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : layer.x) value = normal(random);
    for (std::int32_t& expert : layer.chosen) expert = static_cast<std::int32_t>(random() % experts);
    for (float& weight : layer.weights) weight = std::abs(normal(random));
    for (float& value : layer.up) value = normal(random) / std::sqrt(float{hidden});
    for (float& value : layer.down) value = normal(random) / std::sqrt(float{inner});
    return layer;
}

std::vector<float> forward(const Layer& layer) {
    const Recipe recipe = recipe_named("1x128:128x128");
    // Once, when the weights are loaded.
    const OwnedOperand up =
        quantize(row_major(layer.up.data(), Format::f32, {experts, 2 * inner, hidden}), {.recipe = recipe.b});
    const OwnedOperand down =
        quantize(row_major(layer.down.data(), Format::f32, {experts, hidden, inner}), {.recipe = recipe.b});

    std::vector<float> out(layer.x.size());
    run({.x = row_major(layer.x.data(), Format::f32, {tokens, hidden}),
         .routing = {.experts = row_major(layer.chosen.data(), Format::i32, {tokens, top}),
                     .weights = row_major(layer.weights.data(), Format::f32, {tokens, top})},
         .up = up,
         .down = down,
         .activations = recipe.a,
         .out = row_major(out.data(), Format::f32, {tokens, hidden})});
    return out;
}

double product(const float* w, const auto& x, int k) {
    double sum = 0;
    for (int i = 0; i < k; ++i) sum += double{w[i]} * double(x[i]);
    return sum;
}

/// The result of an expert for a token, in double precision.
std::vector<double> exact_row(const Layer& layer, int expert, int token) {
    const float* const x = &layer.x[static_cast<std::size_t>(token) * hidden];
    const float* const up = &layer.up[static_cast<std::size_t>(expert) * 2 * inner * hidden];
    const float* const down = &layer.down[static_cast<std::size_t>(expert) * hidden * inner];
    std::vector<double> activation(inner);
    for (int i = 0; i < inner; ++i) {
        const double gate = product(up + std::ptrdiff_t{i} * hidden, x, hidden);
        const double linear = product(up + std::ptrdiff_t{inner + i} * hidden, x, hidden);
        activation[static_cast<std::size_t>(i)] = gate / (1 + std::exp(-gate)) * linear;
    }
    std::vector<double> y(hidden);
    for (int i = 0; i < hidden; ++i) {
        y[static_cast<std::size_t>(i)] = product(down + std::ptrdiff_t{i} * inner, activation, inner);
    }
    return y;
}

/// The norm of the error over the norm of the exact result.
double relative_error(const Layer& layer, const std::vector<float>& out) {
    double wrong = 0, all = 0;
    for (int token = 0; token < tokens; ++token) {
        std::vector<double> exact(hidden);
        for (int choice = 0; choice < top; ++choice) {
            const std::size_t at = static_cast<std::size_t>(token) * top + static_cast<std::size_t>(choice);
            const std::vector<double> row = exact_row(layer, layer.chosen[at], token);
            for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += double{layer.weights[at]} * row[i];
        }
        for (std::size_t i = 0; i < exact.size(); ++i) {
            const double error = double{out[static_cast<std::size_t>(token) * hidden + i]} - exact[i];
            wrong += error * error;
            all += exact[i] * exact[i];
        }
    }
    return std::sqrt(wrong / all);
}

}  // namespace

int main() {
    const Layer layer = random_layer();
    const double error = relative_error(layer, forward(layer));
    std::printf("%d tokens through %d of %d experts each, relative error %.1f%%\n", tokens, top, experts, 100 * error);
    return error < 0.1 ? 0 : 1;
}
