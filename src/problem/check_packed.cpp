// Packed weights: where they may be given, of which version and kind, and whether their memory is D's.
#include "base/math.h"
#include "formats/recipe_of.h"
#include "problem/checks.h"
#include "problem/strided.h"

#include <string>
#include <utility>

namespace tilewright::validation {
namespace {

void add(const std::string& given, const std::string& expected, const std::string& advice, Findings& findings) {
    findings.add({.operand = "b.packed", .given = given, .expected = expected, .advice = advice});
}

bool is_of_another_version(const PackedWeights& packed) { return packed.given() && packed.version != packed_version; }

void check_kind(const Problem& p, Findings& findings) {
    const PackedWeights& packed = p.b.packed;
    const OperandRecipe a = recipe_of(p.a);
    // NVFP4 has one order, whatever it was packed for.
    if (!p.a.values.given() || !is_accepted(a) || packed.recipe.granularity == Granularity::block_1x16) return;
    const PackedFor wanted = packed_for(a);
    if (wanted == packed.activations) return;
    add("weights packed for " + std::string(name(packed.activations)) + " activations",
        "weights packed for " + std::string(name(wanted)) + " activations, because a is " + name(a),
        "pack the weights again for these activations", findings);
}

void check_use(const Problem& p, Findings& findings) {
    if (p.b.values.given() || p.b.scales.given() || p.b.tensor_scale.given()) {
        add("packed weights together with values or scales", "only one of them", {}, findings);
    }
    if (b_is_transposed(p.layout)) {
        add("packed weights with layout " + std::string(name(p.layout)), "layout nt or tt", "packed weights are [n, k]",
            findings);
    }
}

void check_bytes(const Problem& p, Check check, Findings& findings) {
    const PackedWeights& packed = p.b.packed;
    if (check == Check::shapes) return;
    if (packed.data == nullptr) return add("a null pointer", "memory for packed weights", {}, findings);
    const Tensor bytes = row_major(packed.data, Format::ue8m0, {packed.bytes});
    if (has_memory(p.d) && p.d.device == packed.device && overlap(p.d, bytes)) {
        findings.add(
            {.operand = "d", .given = "memory that overlaps b.packed", .expected = "separate memory", .advice = {}});
    }
}

Tensor placed(const PackedWeights& packed, Format format, const Dims& shape) {
    Tensor tensor = row_major(packed.data, format, shape);
    tensor.device = packed.device;
    return tensor;
}

}  // namespace

bool packed_is_unknown(const Problem& p, Check check) {
    const PackedWeights& packed = p.b.packed;
    return is_of_another_version(packed) || (packed.given() && check != Check::shapes && packed.data == nullptr);
}

void check_packed(const Problem& p, Check check, Findings& findings) {
    if (p.a.packed.given()) {
        findings.add({.operand = "a",
                      .given = "packed weights",
                      .expected = "activations",
                      .advice = "pass packed weights as b"});
    }
    if (!p.b.packed.given()) return;
    if (is_of_another_version(p.b.packed)) {
        return add("layout version " + std::to_string(p.b.packed.version), "version " + std::to_string(packed_version),
                   "pack the weights again with this version of Tilewright", findings);
    }
    check_use(p, findings);
    check_kind(p, findings);
    check_bytes(p, check, findings);
}

Problem with_ordinary_weights(const Problem& p) {
    Problem ordinary = p;
    const PackedWeights& packed = p.b.packed;
    if (!packed.given() || is_of_another_version(packed)) return ordinary;
    Dims shape = packed.shape();
    Dims scales = shape;
    const int last = shape.rank() - 1;
    const int block = k_block(packed.recipe.granularity);
    scales[last] = ceil_div<std::int64_t>(packed.k, block);
    ordinary.b = {.values = placed(packed, packed.recipe.values, shape),
                  .granularity = packed.recipe.granularity,
                  .scales = placed(packed, packed.recipe.scales, scales)};
    if (packed.tensor_scales != 0) ordinary.b.tensor_scale = placed(packed, Format::f32, {packed.tensor_scales});
    if (b_is_transposed(p.layout)) {
        Tensor& values = ordinary.b.values;
        std::swap(values.shape[last - 1], values.shape[last]);
        std::swap(values.strides[last - 1], values.strides[last]);
    }
    return ordinary;
}

}  // namespace tilewright::validation
