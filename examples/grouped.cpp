// A mixture of experts. The rows are sorted by expert, and experts may have any number of rows. One call multiplies the
// rows of each expert by its weights.
#include <tilewright/tilewright.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

int main() {
    using namespace tilewright;
    constexpr int n = 256;
    constexpr int k = 512;
    const std::vector<std::int32_t> ends{5, 5, 37, 100};  // expert 0 has 5 rows, 1 has none, 2 has 32, 3 has 63
    const int groups = static_cast<int>(ends.size());
    const int m = ends.back();
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> tokens(m * k);
    std::vector<float> weights(groups * n * k);
    for (float& value : tokens) value = normal(random);
    for (float& value : weights) value = normal(random);

    // Activations in MXFP8, weights in MXFP4: a quarter of the bytes of bf16. No padding between experts.
    const Recipe recipe = recipe_named("mxfp8:mxfp4");
    const OwnedOperand a = quantize(row_major(tokens.data(), Format::f32, {m, k}), {.recipe = recipe.a});
    const OwnedOperand b = quantize(row_major(weights.data(), Format::f32, {groups, n, k}), {.recipe = recipe.b});

    std::vector<std::uint16_t> d(m * n);
    run({.a = a,
         .b = b,
         .d = row_major(d.data(), Format::bf16, {m, n}),
         .groups = {.grouping = Grouping::m_grouped_offsets, .sizes = row_major(ends.data(), Format::i32, {groups})}});

    // validate() lists all mistakes of a call at once.
    Problem wrong{.a = a, .b = b, .d = row_major(d.data(), Format::bf16, {n, m})};
    wrong.groups = {.grouping = Grouping::m_grouped_offsets,
                    .sizes = row_major(ends.data(), Format::i32, {groups + 1})};
    for (const Finding& finding : validate(wrong)) std::printf("finding: %s\n", finding.message().c_str());
    std::printf("%d rows through %d experts\n", m, groups);
    return 0;
}
