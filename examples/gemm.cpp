// The shortest useful program: quantize two matrices, multiply them, and compare with the exact product.
#include <tilewright/tilewright.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

int main() {
    using namespace tilewright;
    constexpr int m = 64;    // tokens
    constexpr int n = 512;   // outputs
    constexpr int k = 1024;  // inputs
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> x(m * k);
    std::vector<float> w(n * k);
    for (float& value : x) value = normal(random);
    for (float& value : w) value = normal(random);

    // One scale per 128 values of a token and per 128 x 128 block of the weights, as in DeepSeek-V3.
    const Recipe recipe = recipe_named("1x128:128x128");
    const OwnedOperand a = quantize(row_major(x.data(), Format::f32, {m, k}), {.recipe = recipe.a});
    const OwnedOperand b = quantize(row_major(w.data(), Format::f32, {n, k}), {.recipe = recipe.b});

    std::vector<float> d(m * n);
    run({.a = a, .b = b, .d = row_major(d.data(), Format::f32, {m, n})});

    double error = 0;
    double norm = 0;
    for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
            double exact = 0;
            for (int l = 0; l < k; ++l) exact += double{x[i * k + l]} * w[j * k + l];
            error += (d[i * n + j] - exact) * (d[i * n + j] - exact);
            norm += exact * exact;
        }
    }
    std::printf("relative error after quantization to fp8: %.4f\n", std::sqrt(error / norm));
    return error / norm < 0.05 * 0.05 ? 0 : 1;
}
