// Uses the installed library as any project would; exits with 1 when the product is wrong.
#include <tilewright/tilewright.h>

#include <cstdio>
#include <vector>

int main() {
    using namespace tilewright;
    // Small integers: every recipe holds them exactly, so the product is exact too.
    constexpr int m = 3;
    constexpr int n = 5;
    constexpr int k = 64;
    std::vector<float> a(m * k);
    std::vector<float> b(n * k);
    for (int i = 0; i < m * k; ++i) a[i] = static_cast<float>(i % 3 - 1);
    for (int i = 0; i < n * k; ++i) b[i] = static_cast<float>(i % 2 + 1);
    const Recipe recipe = recipe_named("mxfp8:mxfp4");
    const OwnedOperand qa = quantize(row_major(a.data(), Format::f32, {m, k}), {.recipe = recipe.a});
    const OwnedOperand qb = quantize(row_major(b.data(), Format::f32, {n, k}), {.recipe = recipe.b});
    std::vector<float> d(m * n);
    run({.a = qa, .b = qb, .d = row_major(d.data(), Format::f32, {m, n})});

    for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int l = 0; l < k; ++l) sum += a[i * k + l] * b[j * k + l];
            if (d[i * n + j] != sum) {
                std::printf("d[%d, %d] is %g, not %g\n", i, j, d[i * n + j], sum);
                return 1;
            }
        }
    }
    try {
        run({.a = qa, .b = qb, .d = row_major(d.data(), Format::f32, {n, m})});
    } catch (const Error& error) {
        return error.findings().empty() ? 1 : 0;
    }
    std::puts("a transposed output was accepted");
    return 1;
}
