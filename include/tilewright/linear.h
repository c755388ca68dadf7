// A linear layer that multiplies in fp8, as one call for forward and one for backward. Each call quantizes its inputs
// and runs the products. Tokens may be in groups, each with its own weight (experts).
//
//     forward   Y  = X W^T + bias      X [tokens, K], W [N, K] or [groups, N, K], Y [tokens, N]
//     dgrad     dX = dY W
//     wgrad     dW = dY^T X            per group
#pragma once

#include <tilewright/quantize_tokens.h>
#include <tilewright/run.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tilewright {

/// How both operands of the three products are scaled.
struct LinearRecipe {
    OperandRecipe activations{};  // X in forward, along K
    OperandRecipe weights{};      // W in forward, along K
    OperandRecipe gradients{};    // dY in dgrad, along N
    /// W in dgrad, along N. Not given: dgrad reads the values of forward. It can, because each block of N x K with one
    /// scale in forward also has one scale in dgrad.
    std::optional<OperandRecipe> backward_weights{};
    OperandRecipe gradient_columns{};  // dY^T in wgrad, along the tokens of a group
    /// X^T in wgrad, along the tokens of a group. Not given: the recipe folds. Dgrad and wgrad then multiply the values
    /// of forward without their scales. Instead, dY is multiplied by W's scales before it is quantized for dgrad. For
    /// wgrad it is multiplied by X's scales ("Folded" in docs/numerics.md).
    std::optional<OperandRecipe> columns{};

    bool folds() const { return !columns; }
    /// How W lies in dgrad: nn for values [N, K], nt for values [K, N].
    Layout dgrad_layout() const { return backward_weights ? Layout::nt : Layout::nn; }
};

/// The names that `linear_recipe` takes:
///
/// - row: a scale per token and per row of W.
/// - tensor: a scale per tensor.
/// - 1x128: a scale per 128 elements of a token and per 128 x 128 of W. DeepSeek-V3 was trained with this recipe (arXiv
///   2412.19437, section 3.3).
/// - 1x128:128x128: as 1x128, with 128 x 128 blocks of X in wgrad. All three products are then 1x128 x 128x128.
/// - fold: forward as in row. Its values of X and W serve all three products.
const std::vector<std::string_view>& linear_recipe_names();

/// The recipe of this name; `gradients` is the format of dY, e4m3 or e5m2. Throws Error for any other name or format.
LinearRecipe linear_recipe(std::string_view name, Format gradients = Format::e4m3);

/// The options of both directions.
struct LinearOptions {
    LinearRecipe recipe{};
    Accumulation accumulation = Accumulation::promoted;
    Reproducibility reproducibility = Reproducibility::repeatable;
};

struct LinearForward {
    LinearOptions options{};
    Tensor x{};       // [tokens, K], f32, bf16 or f16.
    Operand w{};      // Quantized by recipe.weights: [N, K] or [groups, N, K].
    Tensor w_real{};  // W in f32, bf16 or f16. If given, the call first quantizes it into w.
    Tensor bias{};    // [N] or [groups, N], f32 or bf16. May be not given.
    /// With groups: int32 or int64 [groups], the token at which each group ends. Clamped, never trusted, as in
    /// `Grouping::m_grouped_offsets`. The rows of Y and dX that belong to no group are set to zeros.
    Tensor ends{};
    Tensor y{};  // [tokens, N], written; bf16, f16 or f32. With ends its columns are adjacent, and dx's too.
    /// Written if its values are given: what backward needs for dW, with the shapes of `kept_shape`. X^T quantized by
    /// recipe.columns; if the recipe folds, X quantized by recipe.activations.
    Operand kept{};
};

struct OperandShape {
    Dims values{};
    Dims scales{};
};

/// The shapes of `LinearForward::kept`. groups: 0 without ends.
OperandShape kept_shape(const LinearRecipe& recipe, std::int64_t tokens, std::int64_t features, std::int64_t groups);

struct LinearBackward {
    LinearOptions options{};
    Tensor dy{};     // [tokens, N], f32, bf16 or f16.
    Operand kept{};  // As forward wrote it. Read if dw is given.
    /// Read if dx is given: W quantized by recipe.backward_weights [K, N] or [groups, K, N]. Without that recipe: w of
    /// forward.
    Operand w{};
    Tensor ends{};      // As in forward.
    Tensor dx{};        // [tokens, K], written if given.
    Tensor dw{};        // [groups, N, K] (one group without ends), written if given.
    bool adds = false;  // dw += dY^T X.
};

/// Bytes of GPU memory that a call needs in addition to its operands, as `Workspace` says. On the CPU a call needs none
/// and allocates for itself. Pointers may be null.
std::int64_t workspace_bytes(const LinearForward& call);
std::int64_t workspace_bytes(const LinearBackward& call);

/// Runs the layer on the device of its tensors, on `how.stream`. Throws Error with every finding. `how.backend` is not
/// read.
void run(const LinearForward& call, const RunOptions& how = {});
void run(const LinearBackward& call, const RunOptions& how = {});

}  // namespace tilewright
