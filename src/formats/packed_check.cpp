// The checks of weights that are to be packed, and of the memory that they are unpacked into.
#include "formats/quantize_check.h"
#include "formats/recipe_of.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tilewright::formats {
namespace {

/// The mistakes in an operand that do not depend on its use, with the operand's name in this call.
std::vector<Finding> check_operand(const Operand& operand, const std::string& name) {
    float unused = 0;
    const Tensor out = row_major(&unused, Format::f32, operand.values.shape);
    std::vector<Finding> findings = check_dequantize(operand, out);
    std::erase_if(findings, [](const Finding& finding) { return finding.operand.rfind("out", 0) == 0; });
    for (Finding& finding : findings) finding.operand.replace(0, std::string("operand").size(), name);
    return findings;
}

/// The same operand as if it were in host memory; a finding for each tensor that is elsewhere than the values.
Operand in_host_memory(Operand operand, std::vector<Finding>& findings) {
    const DeviceId device = operand.values.device;
    const std::pair<const char*, Tensor*> tensors[] = {
        {"values", &operand.values}, {"scales", &operand.scales}, {"tensor_scale", &operand.tensor_scale}};
    for (const auto& [name, tensor] : tensors) {
        if (tensor->given() && tensor->device != device) {
            findings.push_back({.operand = std::string("weights.") + name,
                                .given = memory_of(tensor->device),
                                .expected = memory_of(device) + ", where the values are",
                                .advice = "copy it there"});
        }
        tensor->device = {};
    }
    return operand;
}

bool has_gaps(const Tensor& tensor) {
    const Dims expected = row_major_strides(tensor.format, tensor.shape);
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.shape[i] > 1 && tensor.strides[i] != expected[i]) return true;
    }
    return false;
}

}  // namespace

std::vector<Finding> check_packable(const Operand& weights) {
    const OperandRecipe recipe = recipe_of(weights);
    if (recipe.values != Format::e2m1 || !is_accepted(recipe)) {
        return {{.operand = "weights",
                 .given = is_accepted(recipe) ? name(recipe) : std::string(name(recipe.values)),
                 .expected = "mxfp4 or nvfp4",
                 .advice = "other weights need no packing"}};
    }
    std::vector<Finding> findings;
    const Operand there = in_host_memory(weights, findings);
    for (Finding& finding : check_operand(there, "weights")) findings.push_back(std::move(finding));
    const Tensor& values = weights.values;
    const int k = values.shape.rank() - 1;
    if (findings.empty() && values.shape[k] > 1 && values.strides[k] != 1) {
        findings.push_back({.operand = "weights.values",
                            .given = "strides " + to_string(values.strides),
                            .expected = "a stride of 1 along k",
                            .advice = "pass a K-major copy"});
    }
    return findings;
}

std::vector<Finding> check_unpacked(const PackedWeights& packed, const Operand& out) {
    std::vector<Finding> findings = check_operand(out, "out");
    const auto add = [&](const std::string& operand, const std::string& given, const std::string& expected) {
        findings.push_back({.operand = operand, .given = given, .expected = expected, .advice = {}});
    };
    if (!(recipe_of(out) == packed.recipe)) add("out", name(recipe_of(out)), name(packed.recipe));
    if (out.values.shape != packed.shape()) {
        add("out.values", to_string(out.values.shape), to_string(packed.shape()));
    }
    if (!findings.empty()) return findings;
    if (has_gaps(out.values)) add("out.values", "gaps between rows", "contiguous rows");
    if (has_gaps(out.scales)) add("out.scales", "gaps between rows", "contiguous rows");
    if (packed.tensor_scales > 1 && out.tensor_scale.shape == Dims{1}) {
        add("out.tensor_scale", "[1]", "[" + std::to_string(packed.tensor_scales) + "]");
    }
    return findings;
}

}  // namespace tilewright::formats
