// Cases are what they say: valid problems of every kind, with sizes that include none and one, and the same numbers
// whatever the layout and the strides.
#include "check/case.h"

#include "cpu/reference.h"
#include "formats/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tilewright::check {
namespace {

constexpr Grouping groupings[] = {Grouping::dense,
                                  Grouping::batched,
                                  Grouping::m_grouped_indices,
                                  Grouping::m_grouped_offsets,
                                  Grouping::m_grouped_aligned_offsets,
                                  Grouping::m_grouped_masked,
                                  Grouping::k_grouped,
                                  Grouping::k_grouped_aligned_offsets,
                                  Grouping::k_grouped_flat};

bool is_grouped(Grouping grouping) { return grouping != Grouping::dense && grouping != Grouping::batched; }

std::string findings(const Problem& problem) {
    std::string text;
    for (const tilewright::Finding& finding : validate(problem, Backend::cpu)) text += finding.message() + "\n";
    return text;
}

/// Every option in turn, so that a loop over recipes and groupings has all of them.
CaseSpec varied(const Recipe& recipe, Grouping grouping, int number) {
    const Distribution distributions[] = {Distribution::normal, Distribution::exact_grid, Distribution::uniform,
                                          Distribution::distinct_scales, Distribution::sparse};
    const Format outputs[] = {Format::bf16, Format::f16, Format::f32};
    return {.grouping = grouping,
            .recipe = recipe,
            .layout = static_cast<Layout>(number % 4),
            .output = outputs[number % 3],
            .m = 22,
            .n = 18,
            .k = 66,
            .groups = 4,
            .size_format = number % 2 == 0 ? Format::i32 : Format::i64,
            .alignment = 8,
            .distribution = distributions[number % 5],
            .seed = static_cast<std::uint64_t>(number),
            .with_c = number % 7 < 2,
            .in_place = number % 7 == 0,
            .with_bias = number % 7 == 3 && !is_k_grouped(grouping),
            .bias_format = number % 2 == 0 ? Format::bf16 : Format::f32,
            .a_gaps = {.row = 2, .group = 4},
            .b_gaps = {.row = 4, .group = 2},
            .a_scale_gaps = {.element = 1, .row = 3, .group = 2},
            .b_scale_gaps = {.row = 1, .group = 2},
            .c_gaps = {.row = 3, .group = 5},
            .d_gaps = {.row = 5, .group = 7},
            .bias_gaps = {.element = 2, .row = 3},
            .a_scales_transposed = number % 2 == 0,
            .b_scales_transposed = number % 3 == 0,
            .shared_scales = number % 11 == 0,
            .guard_pages = number % 4 < 2};
}

TEST(Case, IsAValidProblemThatTheReferenceComputesForEveryRecipeAndGrouping) {
    int number = 0;
    for (const Recipe& recipe : all_recipes()) {
        for (Grouping grouping : groupings) {
            const CaseSpec spec = varied(recipe, grouping, number++);
            SCOPED_TRACE(describe(spec));
            Case test_case(spec);
            ASSERT_EQ(findings(test_case.problem()), "");
            test_case.reset_output();
            cpu::run_reference(test_case.geometry());
            ASSERT_EQ(test_case.damage(), "");
            for (const GroupGemm& gemm : test_case.gemms()) {
                for (std::int64_t row = 0; row < gemm.rows; ++row) {
                    for (std::int64_t column = 0; column < spec.n; ++column) {
                        // Poison that was read would be NaN here.
                        ASSERT_TRUE(std::isfinite(test_case.output_at(gemm.group, gemm.row_begin + row, column)));
                    }
                }
            }
        }
    }
}

TEST(Case, SeededSplitsHoldAGroupOfNoneAndAGroupOfOne) {
    for (Grouping grouping : groupings) {
        if (!is_grouped(grouping)) continue;
        for (std::uint64_t seed = 0; seed < 40; ++seed) {
            const std::int64_t groups = 3 + static_cast<std::int64_t>(seed % 7);
            const CaseSpec spec{.grouping = grouping,
                                .recipe = *parse_recipe("bf16"),
                                .m = 200,
                                .n = 4,
                                .k = 200,
                                .groups = groups,
                                .alignment = 16,
                                .seed = seed};
            SCOPED_TRACE(describe(spec));
            const Case test_case(spec);
            std::vector<std::int64_t> sizes(static_cast<std::size_t>(groups), 0);
            const bool of_k = is_k_grouped(grouping);
            for (const GroupGemm& gemm : test_case.gemms()) {
                sizes[static_cast<std::size_t>(gemm.group)] += of_k ? gemm.k_count : gemm.rows;
            }
            EXPECT_EQ(std::ranges::count(sizes, 0) > 0, true);
            EXPECT_EQ(std::ranges::count(sizes, 1) > 0, true);
        }
    }
}

TEST(Case, ExplicitSizesAreTheGemmsOfTheGeometry) {
    const std::vector<std::int64_t> sizes{5, 0, 17, 1, 30};
    for (Grouping grouping : groupings) {
        if (!is_grouped(grouping)) continue;
        const CaseSpec spec{.grouping = grouping,
                            .recipe = *parse_recipe("bf16"),
                            .m = 80,
                            .n = 4,
                            .k = 80,
                            .groups = 5,
                            .group_sizes = sizes,
                            .alignment = 8};
        SCOPED_TRACE(describe(spec));
        std::vector<std::int64_t> seen(sizes.size(), 0);
        const Case test_case(spec);
        for (const GroupGemm& gemm : test_case.gemms()) {
            seen[static_cast<std::size_t>(gemm.group)] += is_k_grouped(grouping) ? gemm.k_count : gemm.rows;
            if (grouping == Grouping::m_grouped_aligned_offsets) {
                EXPECT_EQ(gemm.row_begin % 8, 0);
            }
        }
        EXPECT_EQ(seen, sizes);
    }
}

/// D of the reference, element by element.
std::vector<double> reference_numbers(const CaseSpec& spec) {
    Case test_case(spec);
    test_case.reset_output();
    cpu::run_reference(test_case.geometry());
    std::vector<double> numbers;
    for (const GroupGemm& gemm : test_case.gemms()) {
        for (std::int64_t row = 0; row < gemm.rows; ++row) {
            for (std::int64_t column = 0; column < spec.n; ++column) {
                numbers.push_back(test_case.output_at(gemm.group, gemm.row_begin + row, column));
            }
        }
    }
    return numbers;
}

TEST(Case, LayoutsAndStridesDoNotChangeTheNumbers) {
    for (const char* recipe : {"1x128:128x128", "row:row", "mxfp8:mxfp4", "nvfp4:nvfp4", "bf16"}) {
        for (Grouping grouping : groupings) {
            const CaseSpec simple{.grouping = grouping,
                                  .recipe = *parse_recipe(recipe),
                                  .output = Format::f32,
                                  .m = 26,
                                  .n = 20,
                                  .k = 140,
                                  .groups = 3,
                                  .alignment = 4,
                                  .with_c = true};
            CaseSpec other = simple;
            other.layout = Layout::tn;
            other.a_gaps = {.row = 6, .group = 2};
            other.b_gaps = {.row = 2, .group = 8};
            other.d_gaps = {.element = 1, .row = 3, .group = 1};
            other.a_scale_gaps = other.b_scale_gaps = {.row = 3, .group = 5};
            other.a_scales_transposed = other.b_scales_transposed = true;
            other.in_place = true;
            other.guard_pages = true;
            EXPECT_EQ(reference_numbers(simple), reference_numbers(other)) << describe(other);
        }
    }
}

TEST(Case, ValuesFollowTheirDistribution) {
    const auto mean_and_spread = [](Distribution distribution) {
        const Case test_case({.recipe = *parse_recipe("f32"), .m = 64, .n = 1, .k = 512, .distribution = distribution});
        const auto* values = static_cast<const float*>(test_case.problem().a.values.data);
        double sum = 0;
        double squares = 0;
        for (int i = 0; i < 64 * 512; ++i) {
            sum += values[i];
            squares += double{values[i]} * values[i];
        }
        const double mean = sum / (64 * 512);
        return std::pair(mean, std::sqrt(squares / (64 * 512) - mean * mean));
    };
    const auto expect = [&](Distribution distribution, double mean, double spread) {
        const auto [seen_mean, seen_spread] = mean_and_spread(distribution);
        EXPECT_NEAR(seen_mean, mean, 0.05 * spread + 1e-9) << name(distribution);
        EXPECT_NEAR(seen_spread, spread, 0.12 * spread + 1e-9) << name(distribution);
    };
    expect(Distribution::normal, 0, 1);
    expect(Distribution::abs_normal, std::sqrt(2 / 3.14159265), std::sqrt(1 - 2 / 3.14159265));
    expect(Distribution::uniform, 0.5, std::sqrt(1.0 / 12));
    expect(Distribution::normal_cubed, 0, std::sqrt(15.0));
    expect(Distribution::log_normal, std::exp(0.5), std::sqrt(std::exp(2.0) - std::exp(1.0)));
    expect(Distribution::outliers, 0, std::sqrt(0.99 + 0.01 * 1e4));
    expect(Distribution::sparse, 0, 0.5);
    expect(Distribution::ones, 1, 0);
}

TEST(Case, RefusesWhatCannotBe) {
    const Recipe mxfp4 = *parse_recipe("mxfp4");
    EXPECT_THROW(Case({.recipe = mxfp4, .m = 4, .n = 4, .k = 33}), std::invalid_argument);
    EXPECT_THROW(Case({.recipe = mxfp4, .layout = Layout::tn, .m = 5, .n = 4, .k = 32}), std::invalid_argument);
    EXPECT_THROW(Case({.recipe = mxfp4, .m = 4, .n = 4, .k = 32, .a_gaps = {.row = 1}}), std::invalid_argument);
    EXPECT_THROW(Case({.m = 4, .n = 4, .k = 32, .in_place = true}), std::invalid_argument);
    EXPECT_THROW(
        Case({.grouping = Grouping::m_grouped_offsets, .m = 4, .n = 4, .k = 32, .groups = 2, .group_sizes = {3, 2}}),
        std::invalid_argument);
    EXPECT_NE(impossible({.grouping = Grouping::k_grouped, .m = 4, .n = 4, .k = 32, .with_bias = true}), "");
    EXPECT_NE(impossible({.m = 4, .n = 4, .k = 32, .with_c = true, .with_bias = true}), "");
    EXPECT_NE(impossible({.recipe = mxfp4, .m = 4, .n = 4, .k = 33}), "");
}

}  // namespace
}  // namespace tilewright::check
