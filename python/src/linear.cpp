#include "linear.h"

#include "arguments.h"
#include "new_operand.h"
#include "options.h"
#include "stream.h"
#include "unlocked.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <tilewright/linear.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilewright::python {
namespace {

/// (values, scales) as an operand of this recipe. None: not given.
struct Pair {
    Pair(nb::handle pair, const OperandRecipe& recipe, const std::string& name) {
        if (pair.is_none()) return;
        const auto arrays = nb::borrow<nb::tuple>(pair);
        values = view(arrays[0], {.operand = name + ".values", .format = recipe.values});
        scales = view(arrays[1], {.operand = name + ".scales", .format = recipe.scales});
        operand = {
            .values = values.tensor, .granularity = recipe.granularity, .scales = scales.tensor, .tensor_scale = {}};
    }

    ArrayView values{};
    ArrayView scales{};
    Operand operand{};
};

/// Runs a call on the stream of `like`, with memory from its library.
template <class Call>
void run_call(const Call& call, const LinearWords& words, const ArrayView& like, const char* name) {
    RunOptions how{.stream = stream_of(like, nb::none()),
                   .overlap = words.overlap,
                   .cancelled = &signal_arrived,
                   .device = words.planned.get()};
    ArrayView memory;
    if (const std::int64_t bytes = workspace_bytes(call); bytes > 0) {
        memory = view(new_array(like.source, {bytes}, Format::e4m3, false),
                      {.operand = "workspace", .writable = true, .format = Format::e4m3});
        how.workspace = {memory.tensor.data, bytes};
    }
    run_unlocked([&] { run(call, how); },
                 [&](const std::vector<Finding>& found) { return in_layers_words(found, name); });
}

ArrayView new_matrix(nb::handle like, const Dims& shape, Format format, const char* name) {
    return view(new_array(like, shape, format, false), {.operand = name, .writable = true});
}

std::int64_t group_count(const ArrayView& ends) { return ends.tensor.given() ? ends.tensor.shape[0] : 0; }

using ForwardResult = nb::typed<nb::tuple, nb::object, nb::object, nb::object>;

/// W as this call reads it: the caller's copy, or a new copy that the call makes first.
struct Weights {
    Weights(nb::handle w, nb::handle copy, const OperandRecipe& recipe) : given(copy, recipe, "w") {
        if (!copy.is_none()) return;
        real = view(w, {.operand = "w"});
        made = NewOperand(w, recipe, real.tensor.shape, scale_shape(recipe.granularity, real.tensor.shape));
    }
    const Operand& operand() const { return given.operand.values.given() ? given.operand : made.operand; }

    Pair given;
    ArrayView real{};
    NewOperand made{};
};

ForwardResult linear_forward(nb::handle x, nb::handle w, nb::handle copy, nb::handle bias, nb::handle ends,
                             std::string_view recipe, bool promoted, bool keeps, std::string_view in_force) {
    const LinearWords words(recipe, Format::e4m3, promoted, in_force);
    const LinearRecipe& scaled = words.options.recipe;
    const ArrayView tokens = view(x, {.operand = "x"});
    const Weights weights(w, copy, scaled.weights);
    const ArrayView addend = view(bias, {.operand = "bias"});
    const ArrayView group_ends = view(ends, {.operand = "ends", .integers = true});
    const Dims& x_shape = tokens.tensor.shape;
    const Dims& w_shape = weights.operand().values.shape;
    if (x_shape.rank() != 2) refuse("x", to_string(x_shape), "[tokens, K]");
    if (w_shape.rank() < 2) refuse("w", to_string(w_shape), "[N, K] or [groups, N, K]");
    NewOperand kept;
    if (keeps) {
        const OperandShape shape = kept_shape(scaled, x_shape[0], x_shape[1], group_count(group_ends));
        kept = scaled.folds() ? NewOperand(x, scaled.activations, shape.values, shape.scales)
                              : NewOperand::columns(x, *scaled.columns, shape.values, shape.scales);
    }
    const ArrayView y = new_matrix(x, {x_shape[0], w_shape[w_shape.rank() - 2]}, tokens.tensor.format, "y");
    const LinearForward call{.options = words.options,
                             .x = tokens.tensor,
                             .w = weights.operand(),
                             .w_real = weights.real.tensor,
                             .bias = addend.tensor,
                             .ends = group_ends.tensor,
                             .y = y.tensor,
                             .kept = kept.operand};
    run_call(call, words, tokens, "x");
    return nb::make_tuple(y.source, kept.arrays(), weights.made.arrays());
}

Dims dw_shape(const LinearRecipe& recipe, const Dims& kept, const Dims& dy, std::int64_t groups) {
    return {std::max<std::int64_t>(groups, 1), dy[1], recipe.folds() ? kept[1] : kept[0]};
}

using BackwardResult = nb::typed<nb::tuple, nb::object, nb::object>;

/// `main_grad`: dW is added to it, and no array is made. `dtype`: of a new dW.
BackwardResult linear_backward(nb::handle dy, nb::handle kept, nb::handle w, nb::handle ends, nb::handle main_grad,
                               std::string_view recipe, std::string_view gradient_format, bool promoted,
                               std::pair<bool, bool> wanted, std::string_view dtype, std::string_view in_force) {
    const LinearWords words(recipe, gradients_word(gradient_format), promoted, in_force);
    const LinearRecipe& scaled = words.options.recipe;
    const ArrayView tokens = view(dy, {.operand = "dy"});
    const ArrayView group_ends = view(ends, {.operand = "ends", .integers = true});
    const Pair x(wanted.second ? kept : nb::none(), scaled.folds() ? scaled.activations : *scaled.columns, "x");
    const Pair weights(wanted.first ? w : nb::none(), scaled.backward_weights.value_or(scaled.weights), "w");
    const Dims& shape = tokens.tensor.shape;
    if (shape.rank() != 2) refuse("dy", to_string(shape), "[tokens, N]");
    LinearBackward call{.options = words.options,
                        .dy = tokens.tensor,
                        .kept = x.operand,
                        .w = weights.operand,
                        .ends = group_ends.tensor};
    ArrayView dx;
    ArrayView dw;
    if (weights.operand.values.given()) {
        const Dims& of_w = weights.operand.values.shape;
        const std::int64_t k = of_w[of_w.rank() - (scaled.backward_weights ? 2 : 1)];
        dx = new_matrix(dy, {shape[0], k}, tokens.tensor.format, "dx");
        call.dx = dx.tensor;
    }
    if (x.operand.values.given()) {
        call.adds = !main_grad.is_none();
        const Dims made = dw_shape(scaled, x.operand.values.shape, shape, group_count(group_ends));
        const std::optional<Format> format = parse_format(dtype);
        if (!format) refuse("dtype", "'" + std::string(dtype) + "'", "f32, bf16 or f16");
        dw = call.adds ? view(main_grad, {.operand = "main_grad", .writable = true})
                       : new_matrix(dy, made, *format, "dw");
        call.dw = dw.tensor;
    }
    run_call(call, words, tokens, "dy");
    const auto result = [](const ArrayView& made) {
        return made.tensor.given() ? made.source : nb::object(nb::none());
    };
    return nb::make_tuple(result(dx), result(dw));
}

nb::object word(const std::optional<OperandRecipe>& side) {
    return side ? nb::object(nb::str(name(*side).c_str())) : nb::object(nb::none());
}

using Recipes = nb::typed<nb::dict, nb::str, nb::typed<nb::tuple, nb::object, nb::ellipsis>>;

/// The fields of tilewright.torch.LayerRecipe, by name of the recipe.
Recipes linear_recipes() {
    Recipes all;
    for (const std::string_view name : linear_recipe_names()) {
        const LinearRecipe recipe = linear_recipe(name);
        all[nb::str(name.data(), name.size())] =
            nb::make_tuple(word(recipe.activations), word(recipe.weights), word(recipe.gradients),
                           word(recipe.backward_weights), word(recipe.gradient_columns), word(recipe.columns));
    }
    return all;
}

}  // namespace

LinearWords::LinearWords(std::string_view recipe, Format gradients, bool promoted, std::string_view in_force) {
    options.recipe = linear_recipe(recipe, gradients);
    options.accumulation = promoted ? Accumulation::promoted : Accumulation::unpromoted;
    if (in_force.size() < 2) refuse("options", "'" + std::string(in_force) + "'", "two digits and a device");
    if (in_force[0] == '1') options.reproducibility = Reproducibility::invariant;
    overlap = in_force[1] == '1';
    const std::string_view device = in_force.substr(2);
    if (device != "automatic") planned = planned_device(nb::str(device.data(), device.size()));
}

Format gradients_word(std::string_view word) {
    const std::optional<Format> gradients = parse_format(word);
    if (!gradients) refuse("gradient_format", "'" + std::string(word) + "'", "e4m3 or e5m2");
    return *gradients;
}

std::vector<Finding> in_layers_words(std::vector<Finding> findings, const std::string& source) {
    constexpr std::string_view ours = "source.x";
    for (Finding& finding : findings) {
        for (std::string* text : {&finding.operand, &finding.given, &finding.expected, &finding.advice}) {
            if (const std::size_t at = text->find(ours); at != std::string::npos)
                text->replace(at, ours.size(), source);
        }
    }
    return findings;
}

void bind_linear(nb::module_& m) {
    m.def("linear_recipes", &linear_recipes, "The fields of LayerRecipe by name of the recipe.");
    m.def("linear_forward", &linear_forward, nb::arg("x"), nb::arg("w"), nb::arg("copy").none(), nb::arg("bias").none(),
          nb::arg("ends").none(), nb::arg("recipe"), nb::arg("promoted"), nb::arg("keeps"), nb::arg("options"),
          "New arrays: y; (values, scales) that backward needs for dW, or None; the copy of w, or None where one is "
          "given.");
    m.def("linear_backward", &linear_backward, nb::arg("dy"), nb::arg("x").none(), nb::arg("w").none(),
          nb::arg("ends").none(), nb::arg("main_grad").none(), nb::arg("recipe"), nb::arg("gradient_format"),
          nb::arg("promoted"), nb::arg("wanted"), nb::arg("dtype"), nb::arg("options"),
          "New arrays dx and dw, each or None; with main_grad, dw is main_grad.");
}

}  // namespace tilewright::python
