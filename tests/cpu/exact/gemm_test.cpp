// The arithmetic `bit_exact` against its transcription (canonical.h). Every output bit is compared for every recipe,
// grouping, layout and output format, also where ranges, tails and specials make it hard.
#include "check/case.h"
#include "cpu/exact/canonical.h"
#include "cpu/exact/exact.h"
#include "cpu/exact/levels.h"
#include "formats/element.h"
#include "problem/canonical_order.h"
#include "sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::tests {
namespace {

using check::Case;
using check::CaseSpec;
using check::Distribution;

constexpr std::array groupings{Grouping::dense,
                               Grouping::batched,
                               Grouping::m_grouped_indices,
                               Grouping::m_grouped_offsets,
                               Grouping::m_grouped_aligned_offsets,
                               Grouping::m_grouped_masked,
                               Grouping::k_grouped,
                               Grouping::k_grouped_aligned_offsets,
                               Grouping::k_grouped_flat};
constexpr std::array layouts{Layout::nt, Layout::nn, Layout::tn, Layout::tt};
constexpr std::array outputs{Format::bf16, Format::f16, Format::f32};

const std::vector<Recipe>& hopper_recipes() {
    static const std::vector<Recipe> list = [] {
        std::vector<Recipe> recipes;
        for (const Recipe& recipe : all_recipes()) {
            if (canonical_order(recipe, Accumulation::promoted)) recipes.push_back(recipe);
        }
        return recipes;
    }();
    return list;
}

/// The canonical result, element by element, against what is in D.
std::string difference(const Case& test, std::span<const std::int64_t> k_splits = {}) {
    const Geometry g = test.geometry();
    for (const GroupGemm& gemm : test.gemms()) {
        for (std::int64_t row = 0; row < gemm.rows; ++row) {
            for (std::int64_t column = 0; column < g.n; ++column) {
                const std::uint32_t given = test.output_bits(gemm.group, gemm.row_begin + row, column);
                const std::uint32_t expected = canonical_bits(g, gemm, row, column, k_splits);
                if (given == expected) continue;
                return "group " + std::to_string(gemm.group) + " row " + std::to_string(row) + " column " +
                       std::to_string(column) + ": bits " + std::to_string(given) + ", canonical " +
                       std::to_string(expected);
            }
        }
    }
    return test.damage();
}

void expect_canonical(Case& test, const cpu::ExactOptions& options = {}) {
    // With C in D's place the expectation needs the original C.
    Case untouched(test.spec());
    cpu::run_exact(test.geometry(), options);
    if (test.spec().in_place) {
        test.problem().c = untouched.problem().d;
    }
    EXPECT_EQ(difference(test, options.k_splits), "") << check::describe(test.spec());
}

TEST(ExactGemm, EveryRecipeAndGroupingInEveryLayoutAndOutput) {
    ASSERT_GT(hopper_recipes().size(), 100U);
    std::uint64_t seed = 0;
    Sample sample(13);
    for (const Recipe& recipe : hopper_recipes()) {
        for (const Grouping grouping : groupings) {
            ++seed;
            if (!sample.takes_next()) continue;
            CaseSpec spec{.grouping = grouping,
                          .recipe = recipe,
                          .layout = layouts[seed % 4],
                          .output = outputs[seed % 3],
                          .m = 6 + 2 * std::int64_t(seed % 7),
                          .n = 2 + 2 * std::int64_t(seed % 9),
                          .k = 130 + 2 * std::int64_t(seed % 50),
                          .groups = grouping == Grouping::dense ? 1 : 3,
                          .alignment = 4,
                          .distribution = check::random_distributions()[seed % check::random_distributions().size()],
                          .seed = seed,
                          .with_c = seed % 5 < 2,
                          .in_place = seed % 5 == 0,
                          .with_bias = seed % 5 > 2 && !is_k_grouped(grouping),
                          .bias_format = seed % 2 == 0 ? Format::f32 : Format::bf16,
                          .alpha = seed % 3 == 0 ? 1.0F : -0.37F};
            ASSERT_EQ(check::impossible(spec), "") << check::describe(spec);
            Case test(spec);
            expect_canonical(test);
        }
    }
}

const std::vector<Recipe>& one_recipe_of_each_kind() {
    static const std::vector<Recipe> list = [] {
        std::vector<Recipe> recipes;
        for (const char* text :
             {"tensor:tensor", "row:row", "e5m2.row:e5m2.row", "1x128:128x128", "e5m2.1x128:1x128.ue8m0", "mxfp8:mxfp8",
              "mxfp8:mxfp4", "mxfp4:mxfp4", "mxfp4:1x128", "row:mxfp4", "bf16:bf16", "bf16:mxfp8", "bf16:nvfp4",
              "nvfp4:nvfp4", "nvfp4:mxfp4", "1x128:nvfp4", "nvfp4:128x128", "tensor:nvfp4", "nvfp4:e5m2.row"}) {
            recipes.push_back(parse_recipe(text).value());
        }
        return recipes;
    }();
    return list;
}

TEST(ExactGemm, TheListOfKindsIsAccepted) {
    for (const Recipe& recipe : one_recipe_of_each_kind()) EXPECT_TRUE(is_accepted(recipe)) << name(recipe);
}

TEST(ExactGemm, TailsOfEverySize) {
    for (const Recipe& recipe : one_recipe_of_each_kind()) {
        for (const std::int64_t k : {2, 14, 16, 18, 30, 32, 34, 96, 126, 128, 130, 160, 256, 258, 290}) {
            Case test({.recipe = recipe, .output = Format::f32, .m = 2, .n = 2, .k = k, .seed = std::uint64_t(k)});
            expect_canonical(test);
        }
        for (const std::int64_t size : {2, 4, 6, 14, 16, 18, 30, 32, 34, 62, 64, 66, 126, 128, 130}) {
            Case wide({.recipe = recipe, .layout = Layout::nn, .m = 2, .n = size, .k = 34});
            expect_canonical(wide);
            Case tall({.recipe = recipe, .layout = Layout::tn, .m = size, .n = 2, .k = 34});
            expect_canonical(tall);
        }
    }
}

TEST(ExactGemm, OddSizesAndGapsBetweenEverything) {
    for (const Recipe& recipe : one_recipe_of_each_kind()) {
        const bool packed = recipe.a.values == Format::e2m1 || recipe.b.values == Format::e2m1;
        for (const Layout layout : layouts) {
            const std::int64_t odd = packed ? 0 : 1;
            CaseSpec spec{.grouping = Grouping::batched,
                          .recipe = recipe,
                          .layout = layout,
                          .m = 6 + odd,
                          .n = 4 + odd,
                          .k = 144 + odd,
                          .groups = 2,
                          .with_c = true,
                          .a_gaps = {.row = 4, .group = 6},
                          .b_gaps = {.row = 2, .group = 8},
                          .a_scale_gaps = {.row = 3},
                          .b_scale_gaps = {.row = 1},
                          .c_gaps = {.element = 1, .row = 2, .group = 3},
                          .d_gaps = {.element = 2, .row = 3, .group = 5},
                          .a_scales_transposed = layout == Layout::nt,
                          .b_scales_transposed = layout == Layout::tt,
                          .guard_pages = true};
            ASSERT_EQ(check::impossible(spec), "") << check::describe(spec);
            Case test(spec);
            expect_canonical(test);
        }
    }
}

TEST(ExactGemm, UnpromotedSumsAllOfKInTheTensorCore) {
    for (const char* text : {"tensor:tensor", "row:row", "e5m2.tensor:tensor", "e5m2.row:e5m2.row"}) {
        for (const Distribution distribution : check::random_distributions()) {
            CaseSpec spec{.recipe = parse_recipe(text).value(),
                          .output = Format::f32,
                          .m = 5,
                          .n = 7,
                          .k = 700,
                          .distribution = distribution};
            spec.accumulation = Accumulation::unpromoted;
            Case test(spec);
            expect_canonical(test);
            Case promoted(spec);
            promoted.problem().accumulation = Accumulation::promoted;
            cpu::run_exact(promoted.geometry(), cpu::ExactOptions{});
            EXPECT_FALSE(promoted.output() == test.output()) << check::describe(spec);
        }
    }
}

TEST(ExactGemm, WithoutAnyKDIsCOrZeros) {
    for (const Recipe& recipe : one_recipe_of_each_kind()) {
        for (const bool with_c : {false, true}) {
            for (const Format output : outputs) {
                Case dense({.recipe = recipe, .output = output, .m = 3, .n = 4, .k = 0, .with_c = with_c, .alpha = 2});
                expect_canonical(dense);
                Case grouped({.grouping = Grouping::k_grouped,
                              .recipe = recipe,
                              .output = output,
                              .m = 4,
                              .n = 4,
                              .k = 64,
                              .groups = 3,
                              .group_sizes = {0, 64, 0},
                              .with_c = with_c});
                expect_canonical(grouped);
                for (int i = 0; i < 16 && !with_c; ++i) EXPECT_EQ(grouped.output_bits(2, i / 4, i % 4), 0U);
            }
        }
    }
}

TEST(ExactGemm, SplittingKAddsSlicesInOrder) {
    const std::vector<std::int64_t> k_splits{128, 512, 640, 1024};
    int different = 0;
    for (const Recipe& recipe : one_recipe_of_each_kind()) {
        CaseSpec spec{.recipe = recipe, .output = Format::f32, .m = 4, .n = 6, .k = 770, .with_c = true, .alpha = 0.3F};
        Case split(spec);
        expect_canonical(split, {.k_splits = k_splits});
        Case whole(spec);
        expect_canonical(whole);
        different += split.output() == whole.output() ? 0 : 1;
    }
    EXPECT_GT(different, 3);  // elsewhere these few sums are exact in fp32
}

TEST(ExactGemm, LevelsAndThreadsReturnTheSameBits) {
    for (const Recipe& recipe : one_recipe_of_each_kind()) {
        for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets}) {
            CaseSpec spec{.grouping = grouping, .recipe = recipe, .m = 150, .n = 140, .k = 320};
            spec.groups = grouping == Grouping::dense ? 1 : 3;
            Case test(spec);
            cpu::run_exact(test.geometry(), cpu::ExactOptions{.threads = 1});
            const std::vector<std::byte> expected = test.output();
            for (const cpu::Isa isa : instruction_levels()) {
                for (const int threads : {1, 2, 5}) {
                    test.reset_output();
                    cpu::run_exact(test.geometry(), cpu::ExactOptions{.threads = threads, .isa = isa});
                    EXPECT_TRUE(test.output() == expected)
                        << name(recipe) << ", level " << static_cast<int>(isa) << ", threads " << threads;
                }
            }
        }
    }
}

TEST(ExactGemm, RefusesRecipesWithoutACanonicalOrder) {
    for (const char* text : {"f16:f16", "f32:f32", "f16:mxfp8"}) {
        Case test({.recipe = parse_recipe(text).value(), .m = 2, .n = 2, .k = 32});
        EXPECT_THROW(cpu::run_exact(test.geometry(), cpu::ExactOptions{}), std::invalid_argument) << text;
    }
}

}  // namespace
}  // namespace tilewright::tests
