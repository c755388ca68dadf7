// Recipes: the value format, scale granularity and scale format of each operand, and which pairs are accepted.
#pragma once

#include <tilewright/formats.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// The elements that share one scale, as rows x k of the logical operand.
enum class Granularity : std::uint8_t {
    none,           // Values without scales: bf16, f16, f32, or fp8 without scales.
    tensor,         // One scale per operand, or one per group.
    row,            // One per row of A, or per row of B (a column of D).
    block_1x128,    // One per row and 128 k-elements.
    block_128x128,  // One per 128 rows and 128 k-elements.
    block_1x32,     // OCP MX: one ue8m0 per row and 32 k-elements.
    block_1x16,     // NVFP4: one ue4m3 per row and 16 k-elements, and one f32 per tensor.
};

/// "none", "tensor", "row", "1x128", "128x128", "1x32", "1x16".
std::string_view name(Granularity granularity);

/// k-elements that share one scale; 0 where the scale does not vary along k.
constexpr int k_block(Granularity granularity) {
    switch (granularity) {
        case Granularity::none:
        case Granularity::tensor:
        case Granularity::row: return 0;
        case Granularity::block_1x128:
        case Granularity::block_128x128: return 128;
        case Granularity::block_1x32: return 32;
        case Granularity::block_1x16: return 16;
    }
    return 0;
}

/// Rows that share one scale; 0 where all rows of a group do.
constexpr int row_block(Granularity granularity) {
    switch (granularity) {
        case Granularity::none:
        case Granularity::tensor: return 0;
        case Granularity::block_128x128: return 128;
        default: return 1;
    }
}

/// One side of a recipe. With granularity `none`, `scales` has no meaning and is f32.
struct OperandRecipe {
    Format values = Format::e4m3;
    Granularity granularity = Granularity::tensor;
    Format scales = Format::f32;
    constexpr bool operator==(const OperandRecipe&) const = default;
};

struct Recipe {
    OperandRecipe a;  // activations, [m, k]
    OperandRecipe b;  // weights, [n, k]
    constexpr bool operator==(const Recipe&) const = default;
};

/// Whether one side of a recipe is valid:
///
/// - fp8 with tensor or row scales, f32.
/// - fp8 with 1x128 or 128x128 scales, f32 or ue8m0.
/// - e4m3, e5m2 or e2m1 with 1x32 scales, ue8m0.
/// - e2m1 with 1x16 scales, ue4m3.
/// - bf16, f16, f32 and fp8 without scales.
bool is_accepted(const OperandRecipe& side);

/// Whether the pair is in the closed list of docs/numerics.md, as A : B:
///
/// - tensor : tensor, row : row and 128x128 : 128x128.
/// - 1x128 : tensor, row, 1x128 or 128x128.
/// - tensor, row, 1x128 or 128x128 : fp8 without scales.
/// - bf16, f16 or f32 : itself.
/// - 1x32 or 1x16 on one side, any other on the other side, except fp8 without scales and A with 128x128.
bool is_accepted(const Recipe& recipe);

/// Every accepted recipe; recipes without scales are last.
const std::vector<Recipe>& all_recipes();

/// The short name, which `parse_recipe` reads: "1x128:128x128", "row:row", "mxfp8:mxfp4", "bf16:nvfp4",
/// "e5m2.1x128.ue8m0:1x128".
///
/// - A side is [values.]granularity[.scales]. The defaults e4m3 and f32 (1x32: ue8m0) are left out.
/// - These sides have a name: mxfp8 (e4m3.1x32), mxfp4 (e2m1.1x32), nvfp4 (e2m1.1x16), bf16, f16, f32, e4m3, e5m2.
std::string name(const OperandRecipe& side);
std::string name(const Recipe& recipe);

/// The inverses of `name`; nothing if the text is not a recipe. One side ("row") means both. The result may be a recipe
/// that is not accepted.
std::optional<OperandRecipe> parse_operand_recipe(std::string_view text);
std::optional<Recipe> parse_recipe(std::string_view text);

/// The accepted recipe of this name. Throws Error, which lists the accepted names, for any other text.
Recipe recipe_named(std::string_view text);

/// The part of an error message that explains the names of recipes.
std::string recipe_words();

}  // namespace tilewright
