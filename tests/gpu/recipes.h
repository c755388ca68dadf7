// What the kernels of this version multiply.
#pragma once

#include <tilewright/recipe.h>

#include <vector>

namespace tilewright::test {

/// Every fp8 pair with kernels: all but 1x32, two value formats on each side, both scale formats.
inline std::vector<Recipe> gpu_recipes() {
    std::vector<Recipe> list;
    for (const Recipe& recipe : all_recipes()) {
        bool served = true;
        for (const OperandRecipe& side : {recipe.a, recipe.b}) {
            served = served && is_fp8(side.values) && side.granularity != Granularity::block_1x32;
        }
        if (served) list.push_back(recipe);
    }
    return list;
}

/// The five that the kernel pack is made for.
inline Recipe recipe_of(const char* text) { return *parse_recipe(text); }

}  // namespace tilewright::test
