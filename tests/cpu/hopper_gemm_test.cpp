// The arithmetic `hopper` against its plain transcription (canonical.h): every output bit, for every recipe, grouping,
// layout and output format, and where ranges, tails and specials make it hard.
#include "check/case.h"
#include "cpu/canonical.h"
#include "cpu/hopper.h"
#include "cpu/hopper_levels.h"
#include "formats/element.h"
#include "problem/canonical_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
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
                               Grouping::k_grouped};
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

/// The canonical result, element by element, against what stands in D.
std::string difference(const Case& test, std::span<const std::int64_t> cuts = {}) {
    const Geometry g = test.geometry();
    for (const Piece& piece : test.pieces()) {
        for (std::int64_t row = 0; row < piece.rows; ++row) {
            for (std::int64_t column = 0; column < g.n; ++column) {
                const std::uint32_t given = test.output_bits(piece.group, piece.row_begin + row, column);
                const std::uint32_t expected = canonical_bits(g, piece, row, column, cuts);
                if (given == expected) continue;
                return "group " + std::to_string(piece.group) + " row " + std::to_string(row) + " column " +
                       std::to_string(column) + ": bits " + std::to_string(given) + ", canonical " +
                       std::to_string(expected);
            }
        }
    }
    return test.damage();
}

void expect_canonical(Case& test, const cpu::HopperOptions& options = {}) {
    // With C in D's place the expectation needs the C of before.
    Case untouched(test.spec());
    cpu::run_hopper(test.geometry(), options);
    if (test.spec().in_place) {
        test.problem().c = untouched.problem().d;
    }
    EXPECT_EQ(difference(test, options.cuts), "") << check::describe(test.spec());
}

TEST(HopperGemm, EveryRecipeAndGroupingInEveryLayoutAndOutput) {
    ASSERT_GT(hopper_recipes().size(), 100U);
    std::uint64_t seed = 0;
    for (const Recipe& recipe : hopper_recipes()) {
        for (const Grouping grouping : groupings) {
            ++seed;
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
                          .alpha = seed % 3 == 0 ? 1.0F : -0.37F};
            ASSERT_EQ(check::impossible(spec), "") << check::describe(spec);
            Case test(spec);
            expect_canonical(test, {.threads = 1 + int(seed % 2)});
        }
    }
}

}  // namespace
}  // namespace tilewright::tests
