// Recipes: which value format, scale granularity and scale format each operand has, and which pairs are accepted.
#pragma once

#include <tilewright/formats.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// How many elements share one scale, as rows x k of the logical operand.
enum class Granularity : std::uint8_t {
    none,           // values without scales: bf16, f16, f32, fp8 as it is
    tensor,         // one scale for the operand (one for each group, if so given)
    row,            // one for each row of A, or each row of B (a column of D)
    block_1x128,    // one for each row and 128 of k
    block_128x128,  // one for 128 rows and 128 of k
    block_1x32,     // OCP MX: one ue8m0 for each row and 32 of k
    block_1x16,     // NVFP4: one ue4m3 for each row and 16 of k, and an f32 for the tensor
};

/// "none", "tensor", "row", "1x128", "128x128", "1x32", "1x16".
std::string_view name(Granularity granularity);

/// Elements of k that share one scale; 0 where the scale does not vary along k.
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

/// One side of a recipe. `scales` has no meaning without scales and is f32 there.
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

/// A side on its own makes sense: fp8 with tensor, row, 1x128 or 128x128 scales (f32; the block ones also ue8m0);
/// e4m3, e5m2 or e2m1 with 1x32 ue8m0; e2m1 with 1x16 ue4m3; bf16, f16, f32 and fp8 with none.
bool is_accepted(const OperandRecipe& side);

/// The pair is in the closed list of docs/numerics.md: tensor:tensor, row:row, 1x128 with any of these of B,
/// 128x128:128x128, each of these of A with fp8 of B as it is, bf16, f16 or f32 with itself, and 1x32 or 1x16 on a side
/// with anything else on the other (128x128: of B).
bool is_accepted(const Recipe& recipe);

/// Every accepted recipe, scale-less ones last.
const std::vector<Recipe>& all_recipes();

/// The short name that `parse_recipe` reads back: "1x128:128x128", "row:row", "mxfp8:mxfp4", "bf16:nvfp4",
/// "e5m2.1x128.ue8m0:1x128". A side is [values.]granularity[.scales] with e4m3 and f32 (1x32: ue8m0) left out, or one
/// of mxfp8 (e4m3.1x32), mxfp4 (e2m1.1x32), nvfp4 (e2m1.1x16), bf16, f16, f32, e4m3, e5m2.
std::string name(const OperandRecipe& side);
std::string name(const Recipe& recipe);

/// Nothing if the text is no recipe; one side alone ("row") means both. Does not ask whether it is accepted.
std::optional<OperandRecipe> parse_operand_recipe(std::string_view text);
std::optional<Recipe> parse_recipe(std::string_view text);

/// The accepted recipe of this name. Throws Error, whose message says which there are.
Recipe recipe_named(std::string_view text);

/// What messages say of the names of recipes.
std::string recipe_words();

}  // namespace tilewright
