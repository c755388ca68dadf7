#include "api/moe_check.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "api/moe_steps.h"
#include "api/shown.h"
#include "formats/recipe_of.h"
#include "launch/moe.h"
#include "problem/findings.h"
#include "problem/strided.h"

namespace tilewright {
namespace {

constexpr std::int64_t most_rows = std::int64_t{1} << 30;           // indices of rows are int32
constexpr std::int64_t most_experts = hopper::most_routed_experts;  // whose counts fit in a block's shared memory

constexpr std::initializer_list<Format> real{Format::f32, Format::bf16, Format::f16};
constexpr std::initializer_list<Format> integers{Format::i32, Format::i64};
constexpr std::initializer_list<Format> of_bias{Format::f32, Format::bf16};

/// Whether a product of sizes is beyond the indices of rows; without overflow.
bool are_too_many(std::int64_t rows, std::int64_t by) { return by > 0 && rows > most_rows / by; }

std::string text(std::int64_t number) { return std::to_string(number); }

class MoeFindings {
public:
    MoeFindings(const DeviceId& device, Check how_much) : device_(device), how_much_(how_much) {}

    void add(std::string operand, std::string given, std::string expected, std::string advice = "") {
        list_.add({std::move(operand), std::move(given), std::move(expected), std::move(advice)});
    }
    void add_all(std::vector<Finding> findings) {
        for (Finding& finding : findings) list_.add(std::move(finding));
    }
    bool empty() const { return list_.empty(); }
    std::vector<Finding> take() { return list_.take(); }

    /// Whether a tensor has two dimensions.
    bool matrix(const char* operand, const Tensor& tensor, const char* wanted) {
        if (tensor.shape.rank() == 2) return true;
        add(operand, shown(tensor), wanted);
        return false;
    }

    /// A tensor of exactly this shape. `why` ends the message: ", because x has 7 tokens".
    void shaped(const std::string& operand, const Tensor& tensor, const Dims& shape,
                std::initializer_list<Format> formats, const std::string& why = "") {
        if (tensor.shape != shape) return add(operand, shown(tensor), to_string(shape) + why);
        memory(operand, tensor, formats);
    }

    /// The same with adjacent numbers in each row.
    void rows(const std::string& operand, const Tensor& tensor, const Dims& shape,
              std::initializer_list<Format> formats, const std::string& why = "") {
        shaped(operand, tensor, shape, formats, why);
        if (tensor.shape != shape || tensor.strides.rank() != shape.rank() || validation::is_empty(tensor)) return;
        const int last = shape.rank() - 1;
        if (shape[last] > 1 && tensor.strides[last] != 1) {
            add(operand + ".strides", to_string(tensor.strides), "rows of adjacent numbers", "pass a contiguous copy");
        }
    }

    void memory(const std::string& operand, const Tensor& tensor, std::initializer_list<Format> formats) {
        if (std::find(formats.begin(), formats.end(), tensor.format) == formats.end()) {
            std::vector<std::string> words;
            for (const Format format : formats) words.emplace_back(name(format));
            add(operand, std::string(name(tensor.format)), validation::either(words));
        }
        if (tensor.device != device_) {
            add(operand, "memory of another device", "memory of the device of out", "copy it there");
        }
        if (!validation::has_sound_strides(tensor)) {
            return add(operand + ".strides", to_string(tensor.strides), "a stride per dimension, none negative",
                       "copy a reversed view");
        }
        if (how_much_ == Check::shapes || validation::is_empty(tensor)) return;
        if (tensor.data == nullptr) return add(operand, "a null pointer", "memory for " + to_string(tensor.shape));
        const auto width = static_cast<std::uintptr_t>(std::max(bits(tensor.format) / 8, 1));
        if (reinterpret_cast<std::uintptr_t>(tensor.data) % width != 0) {
            add(operand, "an address that is not a multiple of " + text(static_cast<std::int64_t>(width)),
                "elements that are aligned to their size");
        }
    }

    /// The result shares no memory with an operand that is read.
    void apart(const Tensor& out, const std::string& operand, const Tensor& other) {
        if (how_much_ == Check::shapes || !other.given() || other.data == nullptr || out.data == nullptr) return;
        if (!validation::has_sound_strides(out) || !validation::has_sound_strides(other)) return;
        if (validation::is_empty(out) || validation::is_empty(other)) return;
        if (validation::overlap(out, other)) add("out", "memory that overlaps " + operand, "separate memory");
    }

    void apart(const Tensor& out, const std::string& operand, const Operand& other) {
        const PackedWeights& packed = other.packed;
        if (packed.given()) return apart(out, operand, row_major(packed.data, Format::ue8m0, {packed.bytes}));
        apart(out, operand + ".values", other.values);
        apart(out, operand + ".scales", other.scales);
        apart(out, operand + ".tensor_scale", other.tensor_scale);
    }
    void apart_from_itself(const Tensor& out) {
        if (!validation::has_sound_strides(out) || validation::is_empty(out)) return;
        if (validation::overlaps_itself(out)) {
            add("out.strides", to_string(out.strides), "an address of its own for each element");
        }
    }

private:
    DeviceId device_;
    Check how_much_;
    validation::Findings list_{};
};

bool same_memory(const Tensor& x, const Tensor& y) {
    return x.data == y.data && x.format == y.format && x.strides == y.strides;
}

/// False: without the dimensions of the weights nothing else can be checked.
bool check_weights(const Moe& layer, MoeFindings& findings) {
    const Dims up = weight_shape(layer.up), down = weight_shape(layer.down);
    const bool has_up = layer.unit.kind != GatedUnit::Kind::relu_squared;
    const auto is_matrix = [](const Dims& shape) {
        return shape.rank() == 3 && std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size > 0; });
    };
    const auto words = [](const Dims& shape) { return shape.rank() == 0 ? std::string("nothing") : to_string(shape); };
    if (!is_matrix(up)) {
        const std::string sizes = has_up ? "[experts, 2 inner, hidden]" : "[experts, inner, hidden]";
        findings.add("up", words(up), sizes + ", none of them 0");
    }
    if (!is_matrix(down)) findings.add("down", words(down), "[experts, hidden, inner], none of them 0");
    if (!is_matrix(up) || !is_matrix(down)) return false;
    if (has_up && up[1] % 2 != 0) {
        findings.add("up", to_string(up), "an even number of rows: gates and ups",
                     "relu_squared is the unit without an up");
        return false;
    }
    const std::int64_t inner = has_up ? up[1] / 2 : up[1];
    const std::string why = ", because up is " + to_string(up);
    const bool fits = down == Dims{up[0], up[2], inner};
    if (!fits) findings.add("down", to_string(down), to_string({up[0], up[2], inner}) + why);
    if (up[0] > most_experts) findings.add("up", text(up[0]) + " experts", "at most " + text(most_experts));
    if (layer.up_bias.given()) findings.shaped("up_bias", layer.up_bias, {up[0], up[1]}, of_bias, why);
    if (layer.down_bias.given()) findings.shaped("down_bias", layer.down_bias, {up[0], up[2]}, of_bias, why);
    return fits && up[0] <= most_experts;
}

void check_routing(const Routing& routing, std::int64_t experts, MoeFindings& findings) {
    const Tensor& ids = routing.experts;
    if (ids.shape.rank() != 2 || ids.shape[0] < 0 || ids.shape[1] < 0) {
        return findings.add("routing.experts", shown(ids), "[tokens, choices]");
    }
    findings.memory("routing.experts", ids, integers);
    if (routing.weights.given()) findings.shaped("routing.weights", routing.weights, ids.shape, real, ", as experts");
    if (routing.map.given()) {
        if (routing.map.shape.rank() != 1) {
            findings.add("routing.map", shown(routing.map), "[global experts]");
        } else {
            findings.memory("routing.map", routing.map, {Format::i32});
        }
    }
    if (routing.shared < 0 || routing.shared > experts) {
        findings.add("routing.shared", text(routing.shared), "0 to " + text(experts) + ", the local experts");
    } else if (ids.shape[1] == 0 && routing.shared == 0) {
        findings.add("routing.experts", to_string(ids.shape), "one or more choices, or shared experts");
    } else if (ids.shape[1] > most_rows || are_too_many(ids.shape[0], ids.shape[1] + routing.shared)) {
        findings.add("routing.experts", to_string(ids.shape), "at most 2^30 choices");
    }
}

/// The form of the input, and groups that fit it.
void check_form(const Moe& layer, MoeFindings& findings) {
    const Grouping grouping = layer.groups.grouping;
    if (layer.routing.experts.given()) {
        if (grouping != Grouping::dense) {
            findings.add("groups", std::string(name(grouping)), "none together with routing.experts",
                         "rows that are sorted by expert have groups and no routing");
        }
        if (layer.row_weights.given()) {
            findings.add("row_weights", shown(layer.row_weights), "nothing together with routing.experts",
                         "pass routing.weights");
        }
        return;
    }
    if (layer.routing.weights.given()) {
        findings.add("routing.weights", shown(layer.routing.weights), "nothing without routing.experts",
                     "rows that are sorted by expert have row_weights");
    }
    if (layer.routing.map.given()) {
        findings.add("routing.map", shown(layer.routing.map), "nothing without routing.experts");
    }
    if (layer.routing.shared != 0) {
        findings.add("routing.shared", text(layer.routing.shared), "0 without routing.experts");
    }
    if (grouping != Grouping::m_grouped_offsets && grouping != Grouping::m_grouped_aligned_offsets &&
        grouping != Grouping::m_grouped_masked) {
        findings.add("routing.experts", "nothing", "the experts of each token, or groups of rows",
                     "groups are m_grouped_offsets, m_grouped_aligned_offsets or m_grouped_masked");
    }
}

void check_recipe(const Moe& layer, MoeFindings& findings) {
    const OperandRecipe& recipe = layer.activations;
    const bool fp8_without_scales = recipe.granularity == Granularity::none && bits(recipe.values) < 16;
    if (!is_accepted(recipe) || fp8_without_scales || row_block(recipe.granularity) > 1) {
        findings.add("activations", name(recipe), "scales of single rows: 1x128, row, tensor, mxfp8, nvfp4 or bf16");
    }
    if (!layer.quantized.values.given()) return;
    const OperandRecipe own = recipe_of(layer.quantized);
    const bool alike = own.values == recipe.values && own.granularity == recipe.granularity &&
                       (own.granularity == Granularity::none || own.scales == recipe.scales);
    if (!alike) findings.add("quantized", name(own), name(recipe) + ", as activations");
    if (layer.weights_at == WeightsAt::input) {
        findings.add("quantized", to_string(layer.quantized.values.shape), "x in its place",
                     "weights at the input multiply x ahead of its quantization");
    }
}

void check_quantized(const Operand& quantized, const Dims& shape, MoeFindings& findings) {
    findings.rows("quantized.values", quantized.values, shape, {quantized.values.format});
    const Dims scales = scale_shape(quantized.granularity, shape);
    if (quantized.granularity == Granularity::tensor && quantized.scales.shape == Dims{1}) return;
    if (scales.rank() > 0) {
        findings.shaped("quantized.scales", quantized.scales, scales, {quantized.scales.format});
    }
    if (quantized.granularity != Granularity::block_1x16) return;
    const Dims of_tensor = scale_shape(Granularity::tensor, shape);
    if (quantized.tensor_scale.shape != Dims{1}) {
        findings.shaped("quantized.tensor_scale", quantized.tensor_scale, of_tensor, {Format::f32});
    }
}

/// The result is not in memory that is read, except for the addend's.
void check_overlaps(const Moe& layer, MoeFindings& findings) {
    findings.apart_from_itself(layer.out);
    findings.apart(layer.out, "x", layer.x);
    if (!same_memory(layer.out, layer.addend)) findings.apart(layer.out, "addend", layer.addend);
    findings.apart(layer.out, "routing.experts", layer.routing.experts);
    findings.apart(layer.out, "routing.weights", layer.routing.weights);
    findings.apart(layer.out, "routing.map", layer.routing.map);
    findings.apart(layer.out, "groups.sizes", layer.groups.sizes);
    findings.apart(layer.out, "row_weights", layer.row_weights);
    findings.apart(layer.out, "up_bias", layer.up_bias);
    findings.apart(layer.out, "down_bias", layer.down_bias);
    findings.apart(layer.out, "quantized", layer.quantized);
    findings.apart(layer.out, "up", layer.up);
    findings.apart(layer.out, "down", layer.down);
}

void check_input(const Moe& layer, MoeFindings& findings) {
    const bool has_codes = layer.quantized.values.given();
    const Tensor& x = has_codes ? layer.quantized.values : layer.x;
    const std::string operand = has_codes ? "quantized.values" : "x";
    if (has_codes && layer.x.given()) return findings.add("x", shown(layer.x), "nothing together with quantized");
    const Dims up = weight_shape(layer.up);
    const bool masked = layer.groups.grouping == Grouping::m_grouped_masked;
    const int rank = masked ? 3 : 2;
    const std::string wanted = masked                          ? "[experts, room, hidden]"
                               : layer.routing.experts.given() ? "[tokens, hidden]"
                                                               : "[rows, hidden]";
    if (x.shape.rank() != rank || x.shape[rank - 2] < 0) return findings.add(operand, shown(x), wanted);
    Dims shape = x.shape;
    shape[rank - 1] = up[2];
    if (masked) shape[0] = up[0];
    const std::string why = ", because up is " + to_string(up);
    if (x.shape != shape) return findings.add(operand, shown(x), to_string(shape) + why);
    if (are_too_many(shape[rank - 2], masked ? shape[0] : 1)) {
        findings.add(operand, to_string(shape), "at most 2^30 rows");
    }
    if (has_codes) {
        check_quantized(layer.quantized, shape, findings);
    } else {
        findings.rows("x", x, shape, real);
    }
    if (layer.routing.experts.given() && layer.routing.experts.shape.rank() == 2 &&
        layer.routing.experts.shape[0] != shape[0]) {
        findings.add("routing.experts", shown(layer.routing.experts),
                     "[" + text(shape[0]) + ", choices], because " + operand + " has " + text(shape[0]) + " tokens");
    }
    if (layer.row_weights.given()) {
        findings.shaped("row_weights", layer.row_weights, masked ? Dims{shape[0], shape[1]} : Dims{shape[0]},
                        {Format::f32}, ", one per row");
    }
    findings.rows("out", layer.out, shape, {Format::bf16, Format::f16, Format::f32}, ", as " + operand);
    if (layer.addend.given()) findings.rows("addend", layer.addend, shape, real, ", as out");
    if (!findings.empty()) return;
    check_overlaps(layer, findings);
}

template <class Word>
void check_word(const std::string& operand, Word word, Word last, MoeFindings& findings) {
    if (word <= last) return;
    std::vector<std::string> words;
    for (int i = 0; i <= static_cast<int>(last); ++i) words.emplace_back(name(static_cast<Word>(i)));
    findings.add(operand, text(static_cast<std::int64_t>(word)), validation::either(words));
}

void check_unit(const GatedUnit& unit, MoeFindings& findings) {
    check_word("unit.kind", unit.kind, all_gated_units.back(), findings);
    const auto is_bound = [](float bound) { return bound > 0; };  // also infinity, not NaN
    if (unit.kind == GatedUnit::Kind::swiglu && !(unit.swiglu.limit >= 0)) {
        findings.add("unit.swiglu.limit", std::to_string(unit.swiglu.limit), "0 or more, or infinity for no limit");
    }
    if (unit.kind == GatedUnit::Kind::situ && !(is_bound(unit.gate_bound) && std::isfinite(unit.gate_bound))) {
        findings.add("unit.gate_bound", std::to_string(unit.gate_bound), "a positive number");
    }
    if (unit.kind == GatedUnit::Kind::situ && !is_bound(unit.up_bound)) {
        findings.add("unit.up_bound", std::to_string(unit.up_bound), "a positive number, or infinity for no bound");
    }
}

/// The gates and ups of the features of `of`, the operand with this shape.
void check_gate_up(const Tensor& gate_up, const GatedUnit& unit, const std::string& of, const Dims& shape,
                   MoeFindings& findings) {
    const std::int64_t gates = unit.kind == GatedUnit::Kind::relu_squared ? 1 : 2;
    if (are_too_many(gates, shape[1])) {
        return findings.add(of, to_string(shape), "at most 2^30 columns of gate_up");
    }
    findings.rows("gate_up", gate_up, {shape[0], gates * shape[1]}, {Format::bf16},
                  ", the gates and ups of " + of + "'s features");
}

void check_routed_ends(const Tensor& ends, MoeFindings& findings) {
    if (!ends.given()) return;
    if (ends.shape.rank() != 1 || ends.shape[0] < 1) return findings.add("ends", shown(ends), "[experts]");
    findings.memory("ends", ends, {Format::i32});
}

}  // namespace

std::vector<Finding> check(const Moe& layer, Check how_much) {
    MoeFindings findings(layer.out.device, how_much);
    if (layer.chunk < 1) findings.add("chunk", text(layer.chunk), "1 or more tokens");
    check_word("weights_at", layer.weights_at, all_weights_at.back(), findings);
    check_unit(layer.unit, findings);
    check_form(layer, findings);
    check_recipe(layer, findings);
    if (!check_weights(layer, findings)) return findings.take();
    if (layer.routing.experts.given()) check_routing(layer.routing, weight_shape(layer.up)[0], findings);
    check_input(layer, findings);
    return findings.take();
}

std::vector<Finding> check(const Routing& routing, std::int64_t experts, const Routed& out) {
    MoeFindings findings(routing.experts.device, Check::call);
    if (experts < 1 || experts > most_experts) {
        findings.add("experts", text(experts), "1 to " + text(most_experts));
        return findings.take();
    }
    check_routing(routing, experts, findings);
    if (!findings.empty()) return findings.take();
    const std::int64_t tokens = routing.experts.shape[0], choices = routing.experts.shape[1] + routing.shared;
    const auto output = [&](const char* operand, const Tensor& tensor, const Dims& shape, Format format) {
        if (!tensor.given()) return;
        findings.shaped(operand, tensor, shape, {format});
        if (tensor.shape == shape && !validation::is_empty(tensor) &&
            tensor.strides != row_major_strides(format, shape)) {
            findings.add(operand, "strides " + to_string(tensor.strides), "a tensor without gaps");
        }
    };
    output("out.rows", out.rows, {tokens, choices}, Format::i32);
    output("out.sources", out.sources, {tokens * choices}, Format::i32);
    output("out.ends", out.ends, {experts}, Format::i32);
    output("out.weights", out.weights, {tokens * choices}, Format::f32);
    return findings.take();
}

std::vector<Finding> check(const Combination& sum) {
    MoeFindings findings(sum.out.device, Check::call);
    const bool has_rows = findings.matrix("rows", sum.rows, "[tokens, choices]");
    if (!findings.matrix("y", sum.y, "[rows, hidden]") || !has_rows) return findings.take();
    findings.rows("y", sum.y, sum.y.shape, {Format::bf16});
    findings.memory("rows", sum.rows, {Format::i32});
    const Dims shape{sum.rows.shape[0], sum.y.shape[1]};
    findings.rows("out", sum.out, shape, {Format::bf16, Format::f16, Format::f32});
    if (sum.addend.given()) findings.rows("addend", sum.addend, shape, real, ", as out");
    if (sum.weights.given()) {
        const bool is_smaller = sum.weights.shape.rank() == 2 && sum.weights.shape[1] <= sum.rows.shape[1];
        const Dims wanted{sum.rows.shape[0], is_smaller ? sum.weights.shape[1] : sum.rows.shape[1]};
        findings.shaped("weights", sum.weights, wanted, real);
    }
    if (!findings.empty()) return findings.take();
    findings.apart(sum.out, "y", sum.y);
    if (!same_memory(sum.out, sum.addend)) findings.apart(sum.out, "addend", sum.addend);
    return findings.take();
}

std::vector<Finding> check(const ActivatedRows& call) {
    MoeFindings findings(call.out.device, Check::call);
    check_unit(call.unit, findings);
    if (!findings.matrix("out", call.out, "[rows, inner]")) return findings.take();
    check_gate_up(call.gate_up, call.unit, "out", call.out.shape, findings);
    check_routed_ends(call.ends, findings);
    findings.rows("out", call.out, call.out.shape, {Format::f32});
    if (!findings.empty()) return findings.take();
    findings.apart(call.out, "gate_up", call.gate_up);
    findings.apart(call.out, "ends", call.ends);
    return findings.take();
}

std::vector<Finding> check(const UnitGradient& call) {
    MoeFindings findings(call.out.device, Check::call);
    check_unit(call.unit, findings);
    if (!findings.matrix("gradient", call.gradient, "[rows, inner]")) return findings.take();
    check_gate_up(call.gate_up, call.unit, "gradient", call.gradient.shape, findings);
    findings.rows("gradient", call.gradient, call.gradient.shape, {Format::bf16});
    check_routed_ends(call.ends, findings);
    findings.rows("out", call.out, call.gate_up.shape, {Format::f32}, ", as gate_up");
    if (!findings.empty()) return findings.take();
    findings.apart(call.out, "gate_up", call.gate_up);
    findings.apart(call.out, "gradient", call.gradient);
    findings.apart(call.out, "ends", call.ends);
    return findings.take();
}

std::vector<Finding> check(const WeightGradient& call) {
    MoeFindings findings(call.out.device, Check::call);
    check_unit(call.unit, findings);
    bool has_shapes = findings.matrix("gradient", call.gradient, "[rows, inner]");
    has_shapes = findings.matrix("rows", call.rows, "[tokens, choices]") && has_shapes;
    has_shapes = findings.matrix("out", call.out, "[tokens, weights]") && has_shapes;
    if (!has_shapes || !findings.empty()) return findings.take();
    check_gate_up(call.gate_up, call.unit, "gradient", call.gradient.shape, findings);
    findings.rows("gradient", call.gradient, call.gradient.shape, {Format::bf16});
    findings.memory("rows", call.rows, {Format::i32});
    const Dims shape{call.rows.shape[0], std::min(call.out.shape[1], call.rows.shape[1])};
    findings.shaped("out", call.out, shape, {Format::f32});
    if (!findings.empty()) return findings.take();
    findings.apart(call.out, "gate_up", call.gate_up);
    findings.apart(call.out, "gradient", call.gradient);
    findings.apart(call.out, "rows", call.rows);
    return findings.take();
}

}  // namespace tilewright
