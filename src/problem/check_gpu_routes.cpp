// Calls that no Hopper kernel supports, whatever their sizes. Their pair of operands has no route (gpu_routes.h), or
// the route does not take their groups or their order in memory.
#include <string>
#include <utility>

#include "problem/gpu_routes.h"
#include "problem/hopper_rules.h"

namespace tilewright {
namespace {

Finding unsupported(const char* operand, std::string given, const std::string& expected, const std::string& advice) {
    return {.operand = operand,
            .given = std::move(given),
            .expected = expected + for_a_gpu,
            .advice = advice + (advice.empty() ? "" : ", or ") + run_on_cpu};
}

}  // namespace

std::vector<Finding> without_kernels(const HopperCall& call) {
    const auto& [a, b] = call.recipe;
    std::vector<Finding> findings;
    for (const Misfit& misfit : misfits(call.recipe)) {
        const OperandRecipe& side = misfit.operand[0] == 'a' ? a : b;
        findings.push_back(unsupported(misfit.operand, name(side), misfit.expected, misfit.advice));
    }
    const std::optional<GpuRoute> route = gpu_route(call.recipe);
    if (route && route->a == Arrival::only_along_k && call.a_along_m) {
        findings.push_back(
            unsupported("a.values", name(a) + " values contiguous along m", "values contiguous along k", "copy them"));
    }
    const char* const operand = without_groups_of_k(call.recipe);
    if (is_k_grouped(call.grouping) && operand != nullptr) {
        findings.push_back(unsupported("groups.grouping", std::string(name(call.grouping)),
                                       std::string("a dense, batched or m-grouped call with ") + operand, ""));
    }
    return findings;
}

std::vector<Finding> unsupported_on_hopper(const HopperCall& call) {
    const OperandRecipe& b = call.recipe.b;
    std::vector<Finding> findings = without_kernels(call);
    if (b.values == Format::e2m1 && !call.packed && !call.codes_along_k) {
        findings.push_back(
            unsupported("b.values", name(b) + " values contiguous along n", "values contiguous along k", ""));
    }
    return findings;
}

}  // namespace tilewright
