// The table of routes against the rules of numbers: what is decoded, in which format the pair is multiplied, and which
// recipes have no route.
#include "problem/gpu_routes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "problem/sample.h"

namespace tilewright::test {
namespace {

/// A format that the tensor core holds as it is has no need to be decoded, and any other has.
TEST(GpuRoutes, DecodeWhatTheTensorCoreDoesNotMultiply) {
    int routes = 0;
    for (const Recipe& recipe : all_recipes()) {
        const std::optional<GpuRoute> route = gpu_route(recipe);
        if (!route) continue;
        ++routes;
        const StepKind step = route->multiplied;
        for (const auto& [side, arrival] : {std::pair(recipe.a, route->a), std::pair(recipe.b, route->b)}) {
            const bool as_it_is = multiplied_format(side.values, step) == side.values;
            EXPECT_EQ(is_read_in_place(arrival), as_it_is) << name(recipe);
        }
        EXPECT_NE(route->a, Arrival::tiles) << name(recipe);
        EXPECT_EQ(route->b == Arrival::tiles, recipe.b.values == Format::e2m1) << name(recipe);
        EXPECT_EQ(step, canonical_order(recipe, Accumulation::promoted)->step) << name(recipe);
        EXPECT_TRUE(route->b == Arrival::tiles || (!route->raw && route->expanded_rows == 0)) << name(recipe);
        const bool by_16_or_32 = recipe.a.values == Format::e2m1 || k_block(recipe.a.granularity) == 32 ||
                                 recipe.b.values == Format::e2m1 || k_block(recipe.b.granularity) == 32;
        EXPECT_EQ(route->group->no_groups_of_k == nullptr, !by_16_or_32) << name(recipe);
        EXPECT_EQ(is_multiplied_as_bf16(recipe), step == StepKind::bf16) << name(recipe);
    }
    EXPECT_EQ(routes, 169);
}

/// Validation and the table agree, and each pair without a route is named.
TEST(GpuRoutes, AreWhatValidationAccepts) {
    for (const Recipe& recipe : all_recipes()) {
        const std::string word = name(recipe);
        const bool found = !validate(sample_on_gpu({.recipe = word.c_str()})).empty();
        EXPECT_EQ(found, !gpu_route(recipe))
            << word << " " << messages(validate(sample_on_gpu({.recipe = word.c_str()})));
    }
}

TEST(GpuRoutes, ARecipeOfEachKind) {
    using enum Arrival;
    struct Case {
        const char* recipe;
        Arrival a, b;
        bool raw;
        int expanded_rows;
    };
    for (const auto& [recipe, a, b, raw, expanded_rows] :
         {Case{"1x128:128x128", either_order, either_order, false, 0},
          Case{"row:e4m3", either_order, either_order, false, 0}, Case{"mxfp8:row", along_k, along_k, false, 0},
          Case{"bf16:mxfp8", only_along_k, decoded, false, 0}, Case{"1x128:mxfp4", along_k, tiles, true, 768},
          Case{"row:mxfp4", along_k, tiles, true, 1280}, Case{"mxfp8:mxfp4", along_k, tiles, false, 768},
          Case{"mxfp4:mxfp4", decoded, tiles, false, 0}, Case{"row:nvfp4", decoded, tiles, false, 0},
          Case{"bf16:mxfp4", only_along_k, tiles, false, 2048}, Case{"nvfp4:nvfp4", decoded, tiles, false, 1280}}) {
        const std::optional<GpuRoute> route = gpu_route(recipe_named(recipe));
        ASSERT_TRUE(route) << recipe;
        EXPECT_EQ(route->a, a) << recipe;
        EXPECT_EQ(route->b, b) << recipe;
        EXPECT_EQ(route->raw, raw) << recipe;
        EXPECT_EQ(route->expanded_rows, expanded_rows) << recipe;
    }
    for (const char* recipe : {"bf16:bf16", "f16:f16", "f32:mxfp4", "128x128:128x128.ue8m0", "mxfp4:nvfp4",
                               "mxfp8:bf16", "mxfp4:row", "nvfp4:row", "mxfp4:mxfp8"}) {
        EXPECT_EQ(gpu_route(recipe_named(recipe)).has_value(), std::string(recipe).starts_with("128x128")) << recipe;
    }
}

/// Only fp8 with one scale per row or tensor, with fp8 without scales.
TEST(GpuRoutes, OnesStandForScalesThatBLacks) {
    for (const Recipe& recipe : all_recipes()) {
        const std::optional<GpuRoute> route = gpu_route(recipe);
        const bool at_end =
            canonical_order(recipe, Accumulation::promoted).value_or(CanonicalOrder{}).a == ScaleUse::end;
        const bool b_is_folded = is_fp8(recipe.b.values) && recipe.b.granularity == Granularity::none;
        EXPECT_EQ(route && route->ones_for_b, at_end && b_is_folded) << name(recipe);
    }
}

TEST(GpuRoutes, ActivationsInWords) {
    const auto words = [](const char* weights) { return activations_with(*parse_operand_recipe(weights)); };
    EXPECT_EQ(words("mxfp4"), "bf16, nvfp4, mxfp4, or fp8 with tensor, row, 1x128 or 1x32 scales");
    EXPECT_EQ(words("nvfp4"), "bf16, nvfp4, or fp8 with tensor, row, 1x128 or 1x32 scales");
    EXPECT_EQ(words("mxfp8"), "bf16, nvfp4, or fp8 with tensor, row, 1x128 or 1x32 scales");
    EXPECT_EQ(words("128x128"), "fp8 with 1x128, 128x128 or 1x32 scales");
}

}  // namespace
}  // namespace tilewright::test
