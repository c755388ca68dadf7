// Kernels for tests by the recipe of their operands, as the command line spells it.
#pragma once

#include <tilewright/recipe.h>

#include <string_view>

#include "plan/kernel_class.h"

namespace tilewright::tests {

/// `kernel` with the order and the sides of `of`.
constexpr hopper::Kernel with_scales(hopper::Kernel kernel, const hopper::Kernel& of) {
    kernel.order = of.order;
    kernel.a = of.a;
    kernel.b = of.b;
    return kernel;
}

/// `kernel` with the formats, scales and order of a recipe that needs no preparation; FP4 weights are packed.
constexpr hopper::Kernel of_recipe(const Recipe& recipe, const hopper::Kernel& kernel = {},
                                   Accumulation accumulation = Accumulation::promoted) {
    const Format a = is_nvfp4(recipe.a) ? Format::bf16 : recipe.a.values;
    hopper::Kernel scales = planner::kernel_class(recipe, accumulation, a, recipe.b.values);
    if (recipe.b.values == Format::e2m1) scales = planner::with_packed_weights(scales);
    hopper::Kernel result = with_scales(kernel, scales);
    result.swap_ab = kernel.swap_ab || scales.swap_ab;
    return result;
}
inline hopper::Kernel of_recipe(std::string_view text, const hopper::Kernel& kernel = {},
                                Accumulation accumulation = Accumulation::promoted) {
    return of_recipe(parse_recipe(text).value(), kernel, accumulation);
}

/// 1x128:128x128 and 1x128:1x128, for constants.
inline constexpr Recipe blocks_of_both{{.granularity = Granularity::block_1x128},
                                       {.granularity = Granularity::block_128x128}};
inline constexpr Recipe rows_of_both{{.granularity = Granularity::block_1x128},
                                     {.granularity = Granularity::block_1x128}};

}  // namespace tilewright::tests
