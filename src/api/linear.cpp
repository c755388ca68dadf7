// A linear layer's forward and backward: lays out the call's memory, then quantizes and multiplies.
#include <tilewright/error.h>
#include <tilewright/linear.h>

#include <utility>

#include "api/call_memory.h"
#include "api/linear_check.h"
#include "api/product.h"
#include "cuda/backend.h"
#include "formats/quantize_cpu.h"
#include "launch/quantize.h"

namespace tilewright {
namespace {

Problem product_of(const LinearOptions& options) {
    return {.accumulation = options.accumulation, .reproducibility = options.reproducibility};
}

Groups groups_of_rows(const Tensor& ends) {
    if (!ends.given()) return {};
    return {.grouping = Grouping::m_grouped_offsets, .sizes = ends};
}

std::int64_t group_count(const Tensor& ends) { return ends.given() ? ends.shape[0] : 0; }

Operand columns(Arena& arena, const OperandRecipe& recipe, std::int64_t tokens, std::int64_t features,
                std::int64_t groups) {
    const OperandShape shape = transposed_shape(recipe, tokens, features, groups);
    return arena.operand(recipe, shape.values, shape.scales);
}

struct ForwardSteps {
    TokenOperand rows{};
    TokenOperand columns{};
    Product product{};
};

ForwardSteps steps(const LinearForward& call, Arena& arena) {
    const LinearRecipe& recipe = call.options.recipe;
    const bool keeps = call.kept.values.given();
    ForwardSteps made;
    made.rows.operand = keeps && recipe.folds() ? call.kept : arena.rows(recipe.activations, call.x.shape);
    if (keeps && !recipe.folds()) made.columns.operand = call.kept;
    Problem& product = made.product.problem = product_of(call.options);
    product.a = made.rows.operand;
    product.b = call.w;
    product.d = call.y;
    product.bias = call.bias;
    product.groups = groups_of_rows(call.ends);
    made.product.workspace = workspace_of(product, arena);
    return made;
}

/// The last two dimensions exchanged: scales of W [N, K] as those of the operand [K, N].
Tensor turned(Tensor tensor) {
    const int last = tensor.shape.rank() - 1;
    if (last < 1) return tensor;
    std::swap(tensor.shape[last], tensor.shape[last - 1]);
    std::swap(tensor.strides[last], tensor.strides[last - 1]);
    return tensor;
}

struct BackwardSteps {
    TokenOperand rows{};     // dY for dgrad
    TokenOperand columns{};  // dY^T for wgrad
    Operand turned{};        // X^T, if the recipe folds
    Tensor column_ends{};
    Product dgrad{};
    Product wgrad{};
};

void add_dgrad(const LinearBackward& call, Arena& arena, BackwardSteps& made) {
    const LinearRecipe& recipe = call.options.recipe;
    made.rows.operand = arena.rows(recipe.gradients, call.dy.shape);
    Problem& product = made.dgrad.problem = product_of(call.options);
    product.a = made.rows.operand;
    product.b = call.w;
    if (recipe.folds()) {
        made.rows.feature_factors = call.w.scales;
        product.b = {.values = call.w.values};
    } else if (!recipe.backward_weights && recipe.weights.granularity == Granularity::block_128x128) {
        product.b.scales = turned(call.w.scales);
    }
    product.d = call.dx;
    product.layout = recipe.dgrad_layout();
    product.groups = groups_of_rows(call.ends);
    made.dgrad.workspace = workspace_of(product, arena);
}

void add_wgrad(const LinearBackward& call, Arena& arena, BackwardSteps& made) {
    const LinearRecipe& recipe = call.options.recipe;
    const std::int64_t tokens = call.dy.shape[0], groups = group_count(call.ends);
    made.columns.operand = columns(arena, recipe.gradient_columns, tokens, call.dy.shape[1], groups);
    made.column_ends = arena.tensor(Format::i32, {call.dw.shape[0]});
    Problem& product = made.wgrad.problem = product_of(call.options);
    product.a = made.columns.operand;
    product.b = call.kept;
    if (recipe.folds()) {
        made.columns.token_factors = call.kept.scales;
        const OperandRecipe values{.values = call.kept.values.format, .granularity = Granularity::none};
        product.b = made.turned = columns(arena, values, tokens, call.dw.shape[2], groups);
    }
    product.d = call.dw;
    if (call.adds) product.c = call.dw;
    product.groups = {.grouping = Grouping::k_grouped_aligned_offsets, .sizes = made.column_ends};
    made.wgrad.workspace = workspace_of(product, arena);
}

BackwardSteps steps(const LinearBackward& call, Arena& arena) {
    BackwardSteps made;
    if (call.dx.given()) add_dgrad(call, arena, made);
    if (call.dw.given()) add_wgrad(call, arena, made);
    return made;
}

template <class Call>
std::int64_t bytes_of(const Call& call, const Tensor& source) {
    Arena counting(nullptr, source.device);
    steps(call, counting);
    return counting.bytes();
}

/// Writes the ends of the groups' columns, and zeros into the rows of `d` that belong to no group.
void finish_groups(const Tensor& ends, const Tensor& source, const Tensor& column_ends, const Tensor& d,
                   const RunOptions& how) {
    const std::int64_t tokens = source.shape[0];
    if (!is_on_gpu(source)) return formats::finish_groups_on_cpu(ends, tokens, column_ends, d);
    cuda::run(launch::lower_groups(ends, tokens, column_ends, d), source.device.index, how.stream);
}

}  // namespace

std::int64_t workspace_bytes(const LinearForward& call) {
    if (!is_on_gpu(call.x) || !check(call).empty()) return 0;
    return bytes_of(call, call.x);
}

std::int64_t workspace_bytes(const LinearBackward& call) {
    if (!is_on_gpu(call.dy) || !check(call).empty()) return 0;
    return bytes_of(call, call.dy);
}

void run(const LinearForward& call, const RunOptions& how) {
    require_none(check(call));
    const CallMemory memory(bytes_of(call, call.x), call.x.device, how.workspace);
    Arena arena(memory.data(), call.x.device);
    const ForwardSteps made = steps(call, arena);
    if (call.w_real.given()) quantize(call.w_real, {.recipe = call.options.recipe.weights}, call.w, conversion(how));
    quantize_tokens({.x = call.x, .ends = call.ends}, made.rows, made.columns, false, conversion(how));
    static const OperandNames names{{"d", "y"}};
    multiply(made.product, names, how);
    if (call.ends.given()) finish_groups(call.ends, call.x, {}, call.y, how);  // the product has checked y's memory
}

void run(const LinearBackward& call, const RunOptions& how) {
    require_none(check(call));
    const CallMemory memory(bytes_of(call, call.dy), call.dy.device, how.workspace);
    Arena arena(memory.data(), call.dy.device);
    const BackwardSteps made = steps(call, arena);
    quantize_tokens({.x = call.dy, .ends = call.ends}, made.rows, made.columns, false, conversion(how));
    if (call.dx.given()) multiply(made.dgrad, {{"d", "dx"}}, how);
    finish_groups(call.ends, call.dy, made.column_ends, call.dx, how);
    if (!call.dw.given()) return;
    if (made.turned.values.given()) {
        transpose_codes({.values = call.kept.values}, call.ends, made.turned, conversion(how));
    }
    multiply(made.wgrad, {{"d", "dw"}}, how);
}

}  // namespace tilewright
