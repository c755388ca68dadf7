// Remainders in every direction, scale indices, and all distributions over random
// shapes. Exact data leave nothing to rounding; everything is compared byte for byte, between guard bands.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

constexpr std::array rows{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257};
constexpr std::array columns{1, 7, 8, 16, 24, 64, 72, 112, 127, 128, 129, 136, 448, 576, 2112};
constexpr std::array depths{16, 32, 48, 64, 96, 112, 128, 144, 240, 256, 272, 576, 1152};
constexpr std::array outputs{Format::bf16, Format::f16, Format::f32};

/// The same choices for the same seed, everywhere: std::mt19937_64 is defined to the bit, distributions are not.
class Choice {
public:
    explicit Choice(std::uint64_t seed) : random_(seed) {}

    template <class List>
    auto of(const List& list) {
        return list[random_() % list.size()];
    }
    std::int64_t between(std::int64_t least, std::int64_t most) {
        return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
    }
    bool coin() { return random_() % 2 == 1; }

private:
    std::mt19937_64 random_;
};

class GpuSweep : public testing::TestWithParam<const char*> {};

TEST_P(GpuSweep, Remainders) {
    Choice choice(1);
    std::vector<check::CaseSpec> specs;
    for (int i = 0; i < 2000; ++i) {
        const bool with_c = i % 5 == 4;
        specs.push_back({.recipe = recipe_of(GetParam()),
                         .output = choice.of(outputs),
                         .m = choice.of(rows),
                         .n = choice.of(columns),
                         .k = choice.of(depths),
                         .distribution = check::Distribution::exact_grid,
                         .seed = static_cast<std::uint64_t>(i) + 1,
                         .with_c = with_c,
                         .in_place = with_c && choice.coin(),
                         .alpha = choice.coin() ? 1.0F : 2.0F,
                         .a_gaps = {.row = 16 * choice.between(0, 2)},
                         .b_gaps = {.row = 16 * choice.between(0, 2)},
                         .a_scale_gaps = {.row = choice.between(0, 3)},
                         .b_scale_gaps = {.row = choice.between(0, 3)},
                         .d_gaps = {.row = choice.between(0, 9)},
                         .a_scales_transposed = choice.coin(),
                         .b_scales_transposed = choice.coin()});
    }
    EXPECT_EQ(run_and_compare(specs), "");
}

/// Ones, and scales that are different powers of two from block to block.
TEST_P(GpuSweep, ScaleIndices) {
    Choice choice(2);
    std::vector<check::CaseSpec> specs;
    for (int i = 0; i < 300; ++i) {
        specs.push_back({.recipe = recipe_of(GetParam()),
                         .output = Format::f32,
                         .m = choice.between(1, 400),
                         .n = choice.between(1, 700),
                         .k = 16 * choice.between(1, 150),
                         .distribution = check::Distribution::distinct_scales,
                         .seed = static_cast<std::uint64_t>(i) + 1,
                         .a_scale_gaps = {.row = choice.between(0, 3)},
                         .b_scale_gaps = {.row = choice.between(0, 3)},
                         .a_scales_transposed = choice.coin(),
                         .b_scales_transposed = choice.coin()});
    }
    EXPECT_EQ(run_and_compare(specs), "");
}

TEST_P(GpuSweep, EveryDistribution) {
    Choice choice(3);
    std::vector<check::CaseSpec> specs;
    for (int i = 0; i < 300; ++i) {
        specs.push_back({.recipe = recipe_of(GetParam()),
                         .output = choice.of(outputs),
                         .m = choice.between(1, 600),
                         .n = choice.between(1, 900),
                         .k = 16 * choice.between(1, 200),
                         .distribution = choice.of(check::random_distributions()),
                         .seed = static_cast<std::uint64_t>(i) + 1,
                         .a_scales_transposed = choice.coin(),
                         .b_scales_transposed = choice.coin()});
    }
    EXPECT_EQ(run_and_compare(specs), "");
}

/// Weights [k, n] and A [k, m], with NaN after each row.
TEST_P(GpuSweep, OperandsAlongTheirRows) {
    Choice choice(4);
    std::vector<check::CaseSpec> specs;
    for (int i = 0; i < 600; ++i) {
        const bool of_a = i % 3 == 2, groups = i % 3 == 1;
        const std::int64_t m = choice.between(1, 600), n = choice.between(1, 900), k = choice.between(1, 1300);
        const auto gap = [&](std::int64_t size) { return (16 - size % 16) % 16 + 16 * choice.between(0, 2); };
        specs.push_back({.grouping = groups ? Grouping::m_grouped_offsets : Grouping::dense,
                         .recipe = recipe_of(GetParam()),
                         .layout = of_a ? Layout::tt : Layout::nn,
                         .output = choice.of(outputs),
                         .m = m,
                         .n = n,
                         .k = k,
                         .groups = groups ? 4 : 1,
                         .distribution = choice.of(check::random_distributions()),
                         .seed = static_cast<std::uint64_t>(i) + 1,
                         .with_c = i % 5 == 4,
                         .a_gaps = {.row = gap(of_a ? m : k)},
                         .b_gaps = {.row = gap(of_a ? k : n)},
                         .d_gaps = {.row = choice.between(0, 1) * 8},
                         .a_scales_transposed = choice.coin(),
                         .b_scales_transposed = choice.coin()});
    }
    EXPECT_EQ(run_and_compare(specs), "");
}

INSTANTIATE_TEST_SUITE_P(Recipes, GpuSweep,
                         testing::Values("1x128:128x128", "1x128:1x128", "row:row", "tensor:tensor",
                                         "e5m2.1x128:e4m3.128x128", "1x128.ue8m0:128x128.ue8m0", "128x128:128x128",
                                         "128x128:e4m3", "1x128:row", "1x128.ue8m0:e5m2", "tensor:e4m3"));

}  // namespace
}  // namespace tilewright::test
