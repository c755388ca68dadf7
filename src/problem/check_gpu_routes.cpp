// Calls that no Hopper kernel supports, whatever their sizes. Their pair of operands has no route (gpu_routes.h), or
// the route does not take their groups or their order in memory.
#include <string>
#include <utility>

#include "problem/gpu_routes.h"
#include "problem/hopper_rules.h"

namespace tilewright {
namespace {

bool is_fp4(const OperandRecipe& side) { return is_mxfp4(side) || is_nvfp4(side); }
bool is_mxfp8(const OperandRecipe& side) { return is_fp8(side.values) && side.granularity == Granularity::block_1x32; }

Finding unsupported(const char* operand, std::string given, const std::string& expected, const std::string& advice) {
    return {.operand = operand,
            .given = std::move(given),
            .expected = expected + for_a_gpu,
            .advice = advice + (advice.empty() ? "" : ", or ") + run_on_cpu};
}

/// One side decides which others go with it: weights of FP4 or MXFP8, then MXFP8 activations. The other is at fault.
std::vector<Finding> pair_without_route(const Recipe& recipe) {
    const auto& [a, b] = recipe;
    if (is_fp4(b)) {
        return {unsupported("a", name(a), activations_with(b) + " for " + name(b) + " weights", "pass it as bf16")};
    }
    if (is_mxfp8(b)) {
        return {unsupported("a", name(a), activations_with(b) + " for mxfp8 weights", "quantize it to mxfp8")};
    }
    if (is_mxfp8(a)) return {unsupported("b", name(b), "fp8, mxfp4 or nvfp4 for mxfp8 activations", "")};
    std::vector<Finding> findings;
    for (const auto& [operand, side] : {std::pair("a", a), std::pair("b", b)}) {
        if (is_fp8(side.values)) continue;
        findings.push_back(
            unsupported(operand, name(side), "fp8 with tensor, row, 1x128 or 128x128 scales", "quantize it"));
    }
    return findings;
}

}  // namespace

std::vector<Finding> unsupported_on_hopper(const HopperCall& call) {
    const auto& [a, b] = call.recipe;
    const std::optional<GpuRoute> route = gpu_route(call.recipe);
    std::vector<Finding> findings;
    if (!route) findings = pair_without_route(call.recipe);
    if (route && route->a == Arrival::along_k && is_bf16(a) && call.a_along_m) {
        findings.push_back(
            unsupported("a.values", "bf16 values contiguous along m", "values contiguous along k", "copy them"));
    }
    const bool fp4_weights = is_fp4(b), by_32 = is_mxfp8(a) || is_mxfp8(b);
    const bool takes_groups_of_k = route ? route->groups_of_k : !fp4_weights && !by_32;
    if (is_k_grouped(call.grouping) && !takes_groups_of_k) {
        findings.push_back(unsupported(
            "groups.grouping", std::string(name(call.grouping)),
            std::string("a dense, batched or m-grouped call with ") + (fp4_weights ? "FP4 weights" : "1x32 scales"),
            ""));
    }
    if (fp4_weights && call.weights == WeightKind::ordinary && !call.codes_along_k) {
        findings.push_back(
            unsupported("b.values", name(b) + " values contiguous along n", "values contiguous along k", ""));
    }
    return findings;
}

}  // namespace tilewright
