// What Hopper kernels ask of a call with FP4 weights, which they take packed alone: before or by the call itself.
#include <string>
#include <utility>

#include "problem/canonical_order.h"
#include "problem/hopper_rules.h"

namespace tilewright {
namespace {

/// Packed weights have kernels for MXFP4 with fp8 activations that are scaled by tensor, row, 1x128 or 1x32 and with
/// MXFP4, and for MXFP4 and NVFP4 with bf16 and NVFP4.
void add_packed(const HopperCall& call, std::vector<Finding>& findings) {
    const auto& [a, b] = call.recipe;
    const auto add = [&](const char* operand, const std::string& given, const std::string& expected,
                         const char* advice) {
        findings.push_back({.operand = operand, .given = given, .expected = expected + for_a_gpu, .advice = advice});
    };
    const bool bf16 = is_multiplied_as_bf16(a);
    if (!bf16 && !is_mxfp4(b)) add("b.packed", name(b), "packed mxfp4", run_on_cpu);
    if (!bf16 && !goes_with_packed(a)) {
        add("a", name(a), "bf16, nvfp4, mxfp4, or fp8 with tensor, row, 1x128 or 1x32 scales, next to packed weights",
            run_on_cpu);
    }
    if (is_bf16(a) && call.a_along_m) {
        add("a.values", "bf16 values contiguous along m", "values contiguous along k",
            "copy them, or run it on the CPU backend");
    }
    if (is_k_grouped(call.grouping))
        add("groups.grouping", std::string(name(call.grouping)), "groups of m", run_on_cpu);
}

/// The same kernels, and those that pack weights at each call.
void add_unpacked(const HopperCall& call, std::vector<Finding>& findings) {
    add_packed(call, findings);
    if (call.codes_along_k) return;
    findings.push_back({.operand = "b.values",
                        .given = name(call.recipe.b) + " values contiguous along n",
                        .expected = std::string("values contiguous along k") + for_a_gpu,
                        .advice = run_on_cpu});
}

}  // namespace

bool is_multiplied_as_bf16(const OperandRecipe& a) { return is_bf16(a) || is_nvfp4(a); }

bool goes_with_packed(const OperandRecipe& a) {
    if (!is_fp8(a.values)) return is_mxfp4(a);
    return a.granularity != Granularity::block_128x128 && a.granularity != Granularity::none;
}

std::optional<std::vector<Finding>> fp4_obstacles(const HopperCall& call) {
    std::vector<Finding> findings;
    const auto& [a, b] = call.recipe;
    const bool as_fp8 = is_fp8(a.values) || is_mxfp4(a), as_bf16 = is_multiplied_as_bf16(a);
    const bool packs = (is_mxfp4(b) && (as_fp8 || as_bf16)) || (is_nvfp4(b) && as_bf16);
    if (call.weights != WeightKind::ordinary) {
        add_packed(call, findings);
    } else if (packs) {
        add_unpacked(call, findings);
    } else {
        return std::nullopt;
    }
    return findings;
}

}  // namespace tilewright
