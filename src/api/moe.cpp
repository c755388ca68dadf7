// A layer of experts: checked, laid out, run step by step.
#include <tilewright/error.h>
#include <tilewright/moe.h>

#include <algorithm>
#include <string>

#include "api/moe_check.h"
#include "api/moe_run.h"
#include "problem/findings.h"

namespace tilewright {
namespace {

void run_chunk(const Moe& layer, void* memory, const RunOptions& how) {
    Arena arena(memory, layer.out.device);
    const MoeSteps made = steps(layer, arena);
    make_rows(layer, made, how);
    run_products(layer, made, how);
    if (made.combine) run_step(*made.combine, layer.out.device, after_first(layer, how));
}

std::int64_t bytes_of_chunk(const Moe& layer) {
    Arena counting(nullptr, layer.out.device);
    steps(layer, counting);
    return counting.bytes();
}

/// The most that a whole chunk or the last one needs: plans differ.
std::int64_t bytes_of(const Moe& layer) {
    const MoeSizes sizes = sizes_of(layer);
    if (!sizes.has_routing()) return bytes_of_chunk(layer);
    const std::int64_t bytes = bytes_of_chunk(tokens_of(layer, 0, std::min(layer.chunk, sizes.tokens)));
    const std::int64_t rest = sizes.tokens % layer.chunk;
    return rest == 0 ? bytes : std::max(bytes, bytes_of_chunk(tokens_of(layer, 0, rest)));
}

/// The rows up to the last of the ends that `route` wrote.
moe::ExistingRows routed_rows(const Tensor& ends) { return {.ends = ends, .sorted = true}; }

}  // namespace

std::vector<Finding> validate(const Moe& layer, Backend backend, Check how_much) {
    std::vector<Finding> findings = check(layer, how_much);
    if (!findings.empty()) return findings;
    const Backend resolved = backend != Backend::automatic ? backend
                             : is_on_gpu(layer.out)        ? Backend::hopper
                                                           : Backend::cpu;
    // The steps' own tensors have no memory yet. Pointers of the caller are checked together with `nowhere`.
    // `contents` would read the ends that `route` has not written.
    Arena imagined(how_much == Check::shapes ? nullptr : nowhere(), layer.out.device);
    const MoeSteps made = steps(layer, imagined);
    const Check of_products = how_much == Check::contents && made.route ? Check::call : how_much;
    findings = renamed(validate(made.up.problem, resolved, of_products), names_of_up);
    const Check of_down = how_much == Check::contents ? Check::call : how_much;  // the caller's ends are read once
    for (Finding& finding : renamed(validate(made.down.problem, resolved, of_down), names_of_down)) {
        const auto is_same = [&](const Finding& other) { return other.message() == finding.message(); };
        if (std::none_of(findings.begin(), findings.end(), is_same)) findings.push_back(std::move(finding));
    }
    return findings;
}

std::int64_t workspace_bytes(const Moe& layer) {
    if (!is_on_gpu(layer.out) || !check(layer, Check::shapes).empty()) return 0;
    return bytes_of(layer);
}

void run(const Moe& layer, const RunOptions& how) {
    require_none(validate(layer, how.backend));
    const MoeSizes sizes = sizes_of(layer);
    if (sizes.tokens == 0) return;
    const CallMemory memory(bytes_of(layer), layer.out.device, how.workspace);
    if (!sizes.has_routing()) return run_chunk(layer, memory.data(), how);
    for (std::int64_t begin = 0; begin < sizes.tokens; begin += layer.chunk) {
        const std::int64_t end = std::min(begin + layer.chunk, sizes.tokens);
        run_chunk(tokens_of(layer, begin, end), memory.data(), how);
    }
}

void route(const Routing& routing, std::int64_t experts, const Routed& out, const ConversionOptions& how) {
    require_none(check(routing, experts, out));
    const moe::RouteStep step{.routing = routing, .experts = experts, .out = out};
    if (is_on_gpu(routing.experts)) {
        return run_on_gpu(routing.experts.device.index, {.stream = how.stream}, step);
    }
    moe::run_on_cpu(step);
}

void combine(const Combination& sum, const ConversionOptions& how) {
    require_none(check(sum));
    if (sum.out.shape[0] == 0) return;
    const moe::CombineStep step{
        .y = sum.y, .places = sum.rows, .weights = sum.weights, .addend = sum.addend, .out = sum.out};
    if (is_on_gpu(sum.out)) return run_on_gpu(sum.out.device.index, {.stream = how.stream}, step);
    moe::run_on_cpu(step, how);
}

void activate(const ActivatedRows& call, const ConversionOptions& how) {
    require_none(check(call));
    if (validation::is_empty(call.out)) return;
    const moe::ActivateStep step{
        .gate_up = call.gate_up, .unit = call.unit, .existing = routed_rows(call.ends), .out = {.values = call.out}};
    if (is_on_gpu(call.out)) return run_on_gpu(call.out.device.index, {.stream = how.stream}, step);
    moe::run_on_cpu(step, how);
}

void unit_gradient(const UnitGradient& call, const ConversionOptions& how) {
    require_none(check(call));
    if (validation::is_empty(call.out)) return;
    const moe::UnitGradientStep step{.gate_up = call.gate_up,
                                     .unit = call.unit,
                                     .gradient = call.gradient,
                                     .existing = routed_rows(call.ends),
                                     .out = call.out};
    if (is_on_gpu(call.out)) return run_on_gpu(call.out.device.index, {.stream = how.stream}, step);
    moe::run_on_cpu(step, how);
}

void weight_gradient(const WeightGradient& call, const ConversionOptions& how) {
    require_none(check(call));
    if (validation::is_empty(call.out)) return;
    const moe::WeightGradientStep step{
        .gate_up = call.gate_up, .unit = call.unit, .gradient = call.gradient, .places = call.rows, .out = call.out};
    if (is_on_gpu(call.out)) return run_on_gpu(call.out.device.index, {.stream = how.stream}, step);
    moe::run_on_cpu(step, how);
}

}  // namespace tilewright
