// The recipes of linear layers by name.
#include <tilewright/error.h>
#include <tilewright/linear.h>

#include <algorithm>
#include <array>
#include <string>

#include "api/linear_check.h"

namespace tilewright {
namespace {

constexpr OperandRecipe row{.granularity = Granularity::row};
constexpr OperandRecipe tensor{.granularity = Granularity::tensor};
constexpr OperandRecipe tokens{.granularity = Granularity::block_1x128};
constexpr OperandRecipe squares{.granularity = Granularity::block_128x128};

struct Named {
    std::string_view name;
    LinearRecipe recipe;
};

constexpr std::array all{
    Named{"row",
          {.activations = row,
           .weights = row,
           .gradients = row,
           .backward_weights = row,
           .gradient_columns = row,
           .columns = row}},
    Named{
        "tensor",
        {.activations = tensor, .weights = tensor, .gradients = tensor, .gradient_columns = tensor, .columns = tensor}},
    Named{"1x128",
          {.activations = tokens,
           .weights = squares,
           .gradients = tokens,
           .gradient_columns = tokens,
           .columns = tokens}},
    Named{"1x128:128x128",
          {.activations = tokens,
           .weights = squares,
           .gradients = tokens,
           .gradient_columns = tokens,
           .columns = squares}},
    Named{"fold", {.activations = row, .weights = row, .gradients = row, .gradient_columns = tokens}},
};

}  // namespace

const std::vector<std::string_view>& linear_recipe_names() {
    static const std::vector<std::string_view> names = [] {
        std::vector<std::string_view> list(all.size());
        std::transform(all.begin(), all.end(), list.begin(), [](const Named& each) { return each.name; });
        return list;
    }();
    return names;
}

LinearRecipe linear_recipe(std::string_view name, Format gradients) {
    const auto* const found =
        std::find_if(all.begin(), all.end(), [&](const Named& each) { return each.name == name; });
    if (found == all.end()) {
        std::string expected;
        for (const Named& each : all) expected += (expected.empty() ? "one of " : ", ") + std::string(each.name);
        throw Error(std::vector<Finding>{{"recipe", "'" + std::string(name) + "'", expected, ""}});
    }
    if (!is_fp8(gradients)) {
        throw Error(
            std::vector<Finding>{{"gradient_format", std::string(tilewright::name(gradients)), "e4m3 or e5m2", ""}});
    }
    LinearRecipe recipe = found->recipe;
    recipe.gradients.values = recipe.gradient_columns.values = gradients;
    return recipe;
}

OperandShape kept_shape(const LinearRecipe& recipe, std::int64_t tokens, std::int64_t features, std::int64_t groups) {
    if (recipe.folds()) {
        const Dims rows{tokens, features};
        return {rows, scale_shape(recipe.activations.granularity, rows)};
    }
    return transposed_shape(*recipe.columns, tokens, features, groups);
}

OperandShape transposed_shape(const OperandRecipe& recipe, std::int64_t tokens, std::int64_t features,
                              std::int64_t groups) {
    if (groups > 0) {
        return {columns_shape(tokens, features, groups),
                column_scale_shape(recipe.granularity, tokens, features, groups)};
    }
    const Dims columns = columns_shape(tokens, features, 1);
    return {columns, scale_shape(recipe.granularity, columns)};
}

}  // namespace tilewright
