// Weights of `bench --wide-rows` have the rows that the planner is told of, wide for the activations of the recipe.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/gpu_operands.h"
#include "formats/packed_layout.h"
#include "problem/packed_problem.h"

namespace tilewright::bench {
namespace {

struct Weights {
    explicit Weights(const ProblemSizes& sizes) : problem(problem_of(sizes)) {
        Operand& b = problem.b;
        values.assign(static_cast<std::size_t>(row_major_bytes(b.values.format, b.values.shape)), std::uint8_t{0x21});
        scales.resize(static_cast<std::size_t>(row_major_bytes(b.scales.format, b.scales.shape)));
        for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(126 + i % 3 / 2);
        b.values.data = values.data();
        b.scales.data = scales.data();
    }

    Problem problem;
    std::vector<std::uint8_t> values;
    std::vector<std::uint8_t> scales;
};

TEST(WideRows, AreWideForTheRecipeAtHand) {
    for (const char* recipe : {"1x128:mxfp4", "row:mxfp4", "mxfp8:mxfp4", "mxfp4", "bf16:mxfp4", "nvfp4:mxfp4"}) {
        for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_masked}) {
            for (const int wide_rows : {0, 1, 7, 100, 1000}) {
                SCOPED_TRACE(std::string(recipe) + " " + std::string(name(grouping)) + " " + std::to_string(wide_rows));
                const ProblemSizes sizes{.grouping = grouping,
                                         .recipe = *parse_recipe(recipe),
                                         .m = 8,
                                         .n = 136,
                                         .k = 320,
                                         .groups = grouping == Grouping::dense ? 1 : 3,
                                         .wide_rows = wide_rows};
                Weights weights(sizes);
                widen_rows(sizes, weights.problem.b.scales);
                const OwnedPackedWeights packed = pack_weights(weights.problem.b, packed_for(sizes.recipe.a));
                const PackedWeights expected = with_packed_shape(weights.problem, sizes).b.packed;
                EXPECT_EQ(packed.packed.internal, expected.internal);
                EXPECT_EQ(formats::internal_of(expected) != formats::PackedInternal{}, sizes.first_wide_row() >= 0);
                EXPECT_EQ(sizes.first_wide_row() >= 0, wide_rows > 0 && wide_rows / 2 < 136 * sizes.groups);
                // Only one row in this many.
                std::int64_t wide = 0;
                for (std::int64_t row = 0; row < 136 * sizes.groups; ++row) {
                    wide += weights.scales[static_cast<std::size_t>(row * 10 + 1)] < 120 ? 1 : 0;
                }
                const std::int64_t rows = 136 * sizes.groups - sizes.first_wide_row();
                EXPECT_EQ(wide, sizes.first_wide_row() < 0 ? 0 : (rows + wide_rows - 1) / wide_rows);
            }
        }
    }
}

TEST(WideRows, OtherRecipesHaveNone) {
    for (const char* recipe : {"row:row", "bf16:nvfp4", "nvfp4", "bf16:bf16"}) {
        const ProblemSizes sizes{.recipe = *parse_recipe(recipe), .m = 8, .n = 128, .k = 256, .wide_rows = 1};
        EXPECT_EQ(sizes.first_wide_row(), -1) << recipe;
    }
}

}  // namespace
}  // namespace tilewright::bench
