// The closed list of recipes against a second statement of its rule, and names that read back.
#include <tilewright/error.h>
#include <tilewright/recipe.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace tilewright::test {
namespace {

/// Every scaled side, by family.
const std::set<std::string> tensor{"e4m3.tensor.f32", "e5m2.tensor.f32"};
const std::set<std::string> row{"e4m3.row.f32", "e5m2.row.f32"};
const std::set<std::string> block{"e4m3.1x128.f32", "e4m3.1x128.ue8m0", "e5m2.1x128.f32", "e5m2.1x128.ue8m0"};
const std::set<std::string> square{"e4m3.128x128.f32", "e4m3.128x128.ue8m0", "e5m2.128x128.f32", "e5m2.128x128.ue8m0"};
const std::set<std::string> micro{"e4m3.1x32.ue8m0", "e5m2.1x32.ue8m0", "e2m1.1x32.ue8m0", "e2m1.1x16.ue4m3"};

std::string long_name(const OperandRecipe& side) {
    if (side.granularity == Granularity::none) return std::string(name(side.values));
    return std::string(name(side.values)) + "." + std::string(name(side.granularity)) + "." +
           std::string(name(side.scales));
}

std::set<std::string> listed() {
    std::set<std::string> pairs;
    const auto cross = [&](const std::set<std::string>& a, const std::set<std::string>& b) {
        for (const std::string& x : a) {
            for (const std::string& y : b) pairs.insert(x + ":" + y);
        }
    };
    cross(tensor, tensor);
    cross(row, row);
    cross(block, block);
    for (const auto& any : {tensor, row, square}) cross(block, any);
    cross(square, square);
    for (const auto& anything : {tensor, row, block, square, micro, {"bf16", "f16", "f32"}}) {
        cross(micro, anything);
        if (anything != square) cross(anything, micro);
    }
    for (const auto& any : {tensor, row, block, square}) cross(any, {"e4m3", "e5m2"});
    for (const char* format : {"bf16", "f16", "f32"}) cross({format}, {format});
    return pairs;
}

TEST(Recipes, AllAreTheOnesOfTheRule) {
    std::set<std::string> given;
    for (const Recipe& recipe : all_recipes()) {
        EXPECT_TRUE(given.insert(long_name(recipe.a) + ":" + long_name(recipe.b)).second) << "twice: " << name(recipe);
    }
    EXPECT_EQ(given, listed());
}

TEST(Recipes, AcceptedIsListedAndNothingElse) {
    const std::set<std::string> expected = listed();
    std::vector<OperandRecipe> sides;
    for (int values = 0; values <= static_cast<int>(Format::i64); ++values) {
        for (int granularity = 0; granularity <= static_cast<int>(Granularity::block_1x16); ++granularity) {
            for (int scales = 0; scales <= static_cast<int>(Format::i64); ++scales) {
                // Without scales their format has no meaning; one serves all.
                if (granularity == 0 && scales != static_cast<int>(Format::f32)) continue;
                sides.push_back(
                    {static_cast<Format>(values), static_cast<Granularity>(granularity), static_cast<Format>(scales)});
            }
        }
    }
    for (const OperandRecipe& a : sides) {
        for (const OperandRecipe& b : sides) {
            const std::string pair = long_name(a) + ":" + long_name(b);
            ASSERT_EQ(is_accepted(Recipe{a, b}), expected.count(pair) == 1) << pair;
        }
    }
}

TEST(Recipes, FormatsWithoutScalesAreLast) {
    const std::vector<Recipe>& all = all_recipes();
    const auto is_scaleless = [](const Recipe& recipe) {
        return recipe.a.granularity == Granularity::none && recipe.b.granularity == Granularity::none;
    };
    EXPECT_TRUE(
        std::is_partitioned(all.begin(), all.end(), [&](const Recipe& recipe) { return !is_scaleless(recipe); }));
    EXPECT_EQ(std::count_if(all.begin(), all.end(), is_scaleless), 3);
}

TEST(RecipeNames, ReadBack) {
    std::set<std::string> names;
    for (const Recipe& recipe : all_recipes()) {
        EXPECT_TRUE(names.insert(name(recipe)).second) << "two recipes are called " << name(recipe);
        const std::optional<Recipe> read = parse_recipe(name(recipe));
        ASSERT_TRUE(read.has_value()) << name(recipe);
        EXPECT_EQ(*read, recipe) << name(recipe);
        EXPECT_EQ(parse_operand_recipe(name(recipe.a)), recipe.a);
    }
}

TEST(RecipeNames, OneSideMeansBoth) {
    for (const char* side : {"row", "tensor", "1x128", "mxfp8", "mxfp4", "nvfp4", "bf16", "e5m2.1x128.ue8m0"}) {
        const std::optional<Recipe> both = parse_recipe(side);
        ASSERT_TRUE(both.has_value()) << side;
        EXPECT_EQ(both->a, both->b);
        EXPECT_EQ(name(both->a), side);
    }
}

TEST(RecipeNames, SeveralSpellings) {
    EXPECT_EQ(parse_recipe("e4m3.1x128.f32:128x128"), parse_recipe("1x128:128x128"));
    EXPECT_EQ(parse_operand_recipe("e2m1.1x32"), parse_operand_recipe("mxfp4"));
    EXPECT_EQ(parse_operand_recipe("1x32"), parse_operand_recipe("mxfp8"));
    EXPECT_EQ(parse_operand_recipe("1x16"), parse_operand_recipe("nvfp4"));
}

TEST(RecipeNames, OtherTextIsNone) {
    for (const char* text :
         {"", ":", "row:", ":row", "row:row:row", "e2m1", "none", "fp8", "row.row", "e4m3.row.f32.f32", "bf16.row.x",
          "1x128:", ".", "row.", ".row", "e4m3..f32", "1X128", " row"}) {
        EXPECT_FALSE(parse_recipe(text).has_value()) << text;
    }
}

std::string refusal_of(std::string_view text) {
    try {
        recipe_named(text);
    } catch (const Error& error) {
        return error.findings().size() == 1 ? error.what() : "";
    }
    return "";
}

TEST(Recipe, ByName) {
    for (const Recipe& recipe : all_recipes()) EXPECT_EQ(recipe_named(name(recipe)), recipe);
    const std::string expected = "; expected " + recipe_words() + ".";
    EXPECT_EQ(refusal_of("fp8"), "recipe: got 'fp8'" + expected);
    EXPECT_EQ(refusal_of("128x128:row"),
              "recipe: got '128x128:row'" + expected + " Both sides are valid, but this pair is not supported.");
}

TEST(Recipe, MessagesNameRecipesThatAre) {
    for (const char* word : {"tensor", "row", "1x128", "mxfp8", "mxfp4", "nvfp4", "bf16", "f16", "f32"}) {
        EXPECT_TRUE(parse_recipe(word) && is_accepted(*parse_recipe(word))) << word;
        EXPECT_NE(recipe_words().find(word), std::string::npos) << word;
    }
}

}  // namespace
}  // namespace tilewright::test
