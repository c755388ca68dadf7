// What Hopper kernels ask of a call with FP4 weights, which they take packed alone: before or by the call itself.
#include <string>
#include <utility>

#include "problem/canonical_order.h"
#include "problem/hopper_rules.h"

namespace tilewright {
namespace {

Finding other_activations(const HopperCall& call) {
    const auto& [a, b] = call.recipe;
    const std::string taken =
        is_nvfp4(b) ? "bf16, nvfp4, or fp8 with tensor, row, 1x128 or 1x32 scales for nvfp4 weights"
                    : "bf16, nvfp4, mxfp4, or fp8 with tensor, row, 1x128 or 1x32 scales for mxfp4 weights";
    return {.operand = "a",
            .given = name(a),
            .expected = taken + for_a_gpu,
            .advice = std::string("pass it as bf16, or ") + run_on_cpu};
}

}  // namespace

Finding bf16_along_m() {
    return {.operand = "a.values",
            .given = "bf16 values contiguous along m",
            .expected = std::string("values contiguous along k") + for_a_gpu,
            .advice = std::string("copy them, or ") + run_on_cpu};
}

bool is_multiplied_as_bf16(const OperandRecipe& a) { return is_bf16(a) || is_nvfp4(a); }

bool goes_with_packed(const OperandRecipe& a) {
    if (!is_fp8(a.values)) return is_mxfp4(a);
    return a.granularity != Granularity::block_128x128 && a.granularity != Granularity::none;
}

bool goes_with_fp4(const OperandRecipe& a, const OperandRecipe& b) {
    if (is_mxfp4(b)) return is_multiplied_as_bf16(a) || goes_with_packed(a);
    return is_nvfp4(b) && (is_multiplied_as_bf16(a) || (is_fp8(a.values) && goes_with_packed(a)));
}

std::optional<std::vector<Finding>> fp4_obstacles(const HopperCall& call) {
    const auto& [a, b] = call.recipe;
    if (!is_mxfp4(b) && !is_nvfp4(b)) return std::nullopt;
    std::vector<Finding> findings;
    const auto add = [&](const char* operand, const std::string& given, const std::string& expected,
                         const char* advice) {
        findings.push_back({.operand = operand, .given = given, .expected = expected + for_a_gpu, .advice = advice});
    };
    if (!goes_with_fp4(a, b)) findings.push_back(other_activations(call));
    if (is_bf16(a) && call.a_along_m) findings.push_back(bf16_along_m());
    if (is_k_grouped(call.grouping))
        add("groups.grouping", std::string(name(call.grouping)), "a dense, batched or m-grouped call with FP4 weights",
            run_on_cpu);
    if (call.weights == WeightKind::ordinary && !call.codes_along_k)
        add("b.values", name(b) + " values contiguous along n", "values contiguous along k", run_on_cpu);
    return findings;
}

}  // namespace tilewright
