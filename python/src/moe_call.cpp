#include "moe_call.h"

#include "callers_words.h"

#include <array>
#include <utility>

namespace tilewright::python {
namespace {

OperandRecipe recipe_of(const Operand& operand) {
    if (operand.packed.given()) return operand.packed.recipe;
    return {operand.values.format, operand.granularity, operand.scales.format};
}

/// The activations that are usual with these weights.
OperandRecipe usual_activations(const Operand& weights) {
    constexpr OperandRecipe by_token{.granularity = Granularity::block_1x128};
    constexpr OperandRecipe bf16{.values = Format::bf16, .granularity = Granularity::none};
    const OperandRecipe recipe = recipe_of(weights);
    switch (recipe.granularity) {
        case Granularity::none: return is_fp8(recipe.values) ? by_token : recipe;
        case Granularity::tensor:
        case Granularity::row: return {.granularity = recipe.granularity};
        case Granularity::block_1x128:
        case Granularity::block_128x128: return by_token;
        default: break;
    }
    if (recipe.values != Format::e2m1) return {Format::e4m3, Granularity::block_1x32, Format::ue8m0};
    const bool is_packed_for_fp8 = weights.packed.given() && weights.packed.activations == PackedFor::fp8;
    return is_packed_for_fp8 && recipe.granularity == Granularity::block_1x32 ? by_token : bf16;
}

/// A product of the layer calls its weights b, and has a recipe.
void name_the_product(Finding& finding) {
    const bool about_down = finding.operand.rfind("down", 0) == 0;
    replace_word(finding, "b", about_down ? "down" : "up");
    if (finding.operand != "recipe") return;
    finding.operand = "activations";
    finding.advice = "Omit activations, or quantize up and down by another recipe";
}

/// Names of the library that Python's callers know as something else, in every text of a finding.
constexpr std::array<std::pair<const char*, const char*>, 17> words{{{"routing.experts", "experts"},
                                                                     {"routing.weights", "weights"},
                                                                     {"routing.map", "expert_map"},
                                                                     {"routing.shared", "shared"},
                                                                     {"unit.gate_bound", "gate_bound"},
                                                                     {"unit.up_bound", "up_bound"},
                                                                     {"unit.swiglu.limit", "limit"},
                                                                     {"a.values", "x.values"},
                                                                     {"groups.alignment", "alignment"},
                                                                     {"m_grouped_offsets", "offsets"},
                                                                     {"m_grouped_aligned_offsets", "aligned_offsets"},
                                                                     {"m_grouped_masked", "counts"},
                                                                     {"quantized.values", "x.values"},
                                                                     {"quantized.scales", "x.scales"},
                                                                     {"h.values", "h"},
                                                                     {"up.packed", "up"},
                                                                     {"down.packed", "down"}}};

}  // namespace

MoeCall::MoeCall(nb::handle x, nb::handle up, nb::handle down, const MoeOptions& own, const GroupOptions& groups,
                 const CallOptions& options)
    : sizes_word_(groups.word) {
    arrays_.reserve(13);  // x, up, down, experts, weights, map, row weights, sizes, biases, addend, out
    layer.unit = own.unit;
    layer.round_up = own.round_up;
    layer.weights_at = own.weights_at;
    layer.accumulation = options.accumulation;
    layer.arithmetic = options.arithmetic;
    layer.reproducibility = options.reproducibility;
    layer.sm_limit = options.sm_limit;
    layer.chunk = own.chunk;
    layer.expected_m = groups.expected_m;
    layer.routing.shared = own.shared;
    std::size_t before = arrays_.size();
    layer.up = operand_of(up, "up", arrays_);
    up_is_array_ = arrays_.size() > before;
    before = arrays_.size();
    layer.down = operand_of(down, "down", arrays_);
    down_is_array_ = arrays_.size() > before;
    take_input(x, own);
    layer.routing.experts = kept(own.experts, {.operand = "experts", .integers = true});
    layer.routing.weights = kept(own.weights, {.operand = "weights"});
    layer.routing.map = kept(own.expert_map, {.operand = "expert_map", .integers = true});
    layer.row_weights = kept(own.row_weights, {.operand = "row_weights"});
    layer.groups.grouping = groups.grouping;
    layer.groups.alignment = groups.alignment;
    layer.groups.sizes = kept(groups.sizes, {.operand = sizes_word_, .integers = true});
    layer.up_bias = kept(own.up_bias, {.operand = "up_bias", .format = Format::bf16, .only_codes = true});
    layer.down_bias = kept(own.down_bias, {.operand = "down_bias", .format = Format::bf16, .only_codes = true});
    make_result(x, options);
    layer.addend = kept(own.addend, {.operand = "addend", .format = layer.out.format, .only_codes = true});
}

MoeCall::~MoeCall() {
    const nb::error_scope kept;
    arrays_.clear();
    out = {};
}

Tensor MoeCall::kept(nb::handle array, const ArrayRole& role) {
    if (!array.is_valid()) return {};
    arrays_.push_back(view(array, role));
    return arrays_.back().tensor;
}

void MoeCall::take_input(nb::handle x, const MoeOptions& own) {
    const std::size_t before = arrays_.size();
    const Operand given = operand_of(x, "x", arrays_);
    x_is_array_ = arrays_.size() > before;
    if (given.packed.given()) refuse("x", "PackedWeights", "an array or a Quantized");
    if (given.granularity == Granularity::none && !is_fp8(given.values.format)) {
        layer.x = given.values;
    } else {
        layer.quantized = given;
    }
    const bool is_quantized = layer.quantized.values.given();
    layer.activations = own.activations.value_or(is_quantized ? recipe_of(given) : usual_activations(layer.up));
}

void MoeCall::make_result(nb::handle x, const CallOptions& options) {
    std::optional<Format> format = options.out_dtype;
    own_result_ = !options.out.is_valid();
    result = own_result_ ? nb::object(nb::none()) : nb::borrow(options.out);
    const Tensor& read = layer.x.given() ? layer.x : layer.quantized.values;
    if (own_result_) {
        if (!format) format = layer.x.given() ? layer.x.format : Format::bf16;
        const nb::object like = values_of(x);
        layer.out = row_major(static_cast<void*>(nullptr), *format, read.shape);
        layer.out.device = read.device;
        const bool on_gpu = read.device.kind == DeviceId::Kind::cuda;
        if (on_gpu && !nb::cast<bool>(arrays_module().attr("is_torch")(like))) return;
        // Rows of no group are not written. A new array does not show what was in its memory.
        result = new_array(like, read.shape, *format, !layer.routing.experts.given());
    }
    out = view(result, {.operand = "out", .writable = true, .format = format});
    layer.out = out.tensor;
}

void MoeCall::require_result() const {
    if (!result.is_none()) return;
    refuse("out", "nothing", "an array in memory of cuda:" + std::to_string(layer.out.device.index),
           "allocate it with your library: only torch tensors are allocated for you");
}

std::vector<Finding> MoeCall::in_callers_words(const std::vector<Finding>& found) const {
    std::vector<Finding> renamed;
    std::vector<Finding> about_own_result;
    for (Finding finding : found) {
        const bool about_out = finding.operand == "out" || finding.operand.rfind("out.", 0) == 0;
        name_the_flag(finding);
        name_the_product(finding);
        for (const auto& [ours, theirs] : words) replace_word(finding, ours, theirs);
        if (!sizes_word_.empty()) replace_word(finding, "groups.sizes", sizes_word_);
        if (finding.operand == "quantized") finding.operand = "x";
        if (x_is_array_) replace_word(finding, "x.values", "x");
        if (up_is_array_) replace_word(finding, "up.values", "up");
        if (down_is_array_) replace_word(finding, "down.values", "down");
        (about_out && own_result_ ? about_own_result : renamed).push_back(std::move(finding));
    }
    return renamed.empty() ? about_own_result : renamed;
}

}  // namespace tilewright::python
