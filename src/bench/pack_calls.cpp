#include "bench/pack_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "hopper/description/design.h"
#include "launch/kernels.h"
#include "measure/statistics.h"
#include "plan/choose.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"
#include "problem/geometry.h"

namespace tilewright::bench {
namespace {

struct Kind {
    const char* name;
    std::vector<BenchShape> shapes;
};

const std::vector<Kind>& kinds() {
    constexpr Grouping masked = Grouping::m_grouped_masked;
    constexpr Grouping aligned = Grouping::m_grouped_aligned_offsets;
    static const std::vector<Kind> list{
        {"m >= 4096", {{.m = 4096, .n = 7168, .k = 2048}, {.m = 8192, .n = 4096, .k = 1536}}},
        {"m = 129 .. 4095", {{.m = 1024, .n = 4096, .k = 7168}, {.m = 512, .n = 2112, .k = 7168}}},
        {"m <= 128",
         {{.m = 16, .n = 7168, .k = 2048}, {.m = 64, .n = 4096, .k = 7168}, {.m = 128, .n = 2112, .k = 7168}}},
        {"groups",
         {{.grouping = aligned, .groups = 8, .m = 512, .n = 4096, .k = 2048},
          {.grouping = masked, .groups = 16, .m = 48, .n = 4096, .k = 7168, .max_m = 256}}},
        {"groups of k",
         {{.grouping = Grouping::k_grouped_aligned_offsets, .groups = 8, .m = 4096, .n = 7168, .k = 1024},
          {.grouping = Grouping::k_grouped_flat, .groups = 8, .m = 4096, .n = 7168, .k = 1024}}}};
    return list;
}

/// A kernel for usual calls with scales in either order, the one for f32, and the one for all others: alpha makes it.
struct Variant {
    ScaleLayout scales;
    float alpha;
    bool accumulates_f32 = false;
};
constexpr std::array variants{Variant{ScaleLayout::m, 1.0F}, Variant{ScaleLayout::k_of_a, 1.0F},
                              Variant{ScaleLayout::m, 1.5F}, Variant{ScaleLayout::m, 1.0F, true}};

struct Mode {
    const char* recipe;
    Accumulation accumulation;
};
constexpr std::array modes{Mode{"tensor:tensor", Accumulation::promoted},
                           Mode{"tensor:tensor", Accumulation::unpromoted},
                           Mode{"1x128:128x128", Accumulation::promoted}, Mode{"1x128:1x128", Accumulation::promoted},
                           Mode{"1x128:e4m3", Accumulation::promoted}};

struct RankedCall {
    std::size_t problem;
    double behind;  // predicted time over that of the planner's choice
    KernelCall call;
};

using CallsOfKernel = std::map<std::string, std::vector<RankedCall>>;

/// The kernels that `problem` can run, ranked.
void collect(const PackProblem& problem, std::size_t index, const DeviceDescription& device, CallsOfKernel& found) {
    const Problem shapes = shapes_of(problem);
    const Geometry lowered = geometry(shapes);
    const std::vector<Plan> plans = planner::runnable_plans(shapes, device);
    for (const Plan& plan : plans) {
        const hopper::Kernel tile = planner::runnable_tile(planner::planned_tile(plan), shapes, device);
        if (!planner::ships(tile)) continue;
        const hopper::Kernel kernel = planner::variant(lowered, tile);
        if (kernel.output == hopper::Output::any && !planner::serves_general_calls(tile)) continue;
        if (problem.settings.accumulate && kernel.output != hopper::Output::f32_by_tma) continue;
        found[launch::kernel_expression(kernel)].push_back(
            {.problem = index,
             .behind = plan.cost.seconds / plans.front().cost.seconds,
             .call = {.tile = planner::planned_tile(plan), .kernel = kernel}});
    }
}

std::vector<PackProblem> candidates() {
    std::vector<PackProblem> problems;
    for (const Mode& mode : modes) {
        for (const Variant& variant : variants) {
            for (const Kind& kind : kinds()) {
                for (const BenchShape& shape : kind.shapes) {
                    problems.push_back({.shape = shape,
                                        .settings = {.recipe = parse_recipe(mode.recipe).value(),
                                                     .output = variant.accumulates_f32 ? Format::f32 : Format::bf16,
                                                     .accumulation = mode.accumulation,
                                                     .scales = variant.scales,
                                                     .accumulate = variant.accumulates_f32},
                                        .alpha = variant.alpha,
                                        .kind = kind.name});
                }
            }
        }
    }
    return problems;
}

}  // namespace

Problem shapes_of(const PackProblem& problem) {
    Problem shapes = shapes_of(gpu_sizes(problem.shape, problem.settings), problem.settings.scales);
    shapes.alpha = problem.alpha;
    return shapes;
}

bool is_called(const hopper::Kernel& kernel) {
    return hopper::Design(kernel).feed == hopper::FeedKind::shared && kernel.order.folded == Folded::none;
}

std::vector<PackProblem> pack_problems(const DeviceDescription& device, std::size_t most) {
    std::vector<PackProblem> problems = candidates();
    CallsOfKernel found;
    for (std::size_t i = 0; i < problems.size(); ++i) collect(problems[i], i, device, found);
    for (auto& [kernel, calls] : found) {
        std::stable_sort(calls.begin(), calls.end(),
                         [](const RankedCall& x, const RankedCall& y) { return x.behind < y.behind; });
        if (calls.size() > most) calls.resize(most);
        for (const RankedCall& call : calls) problems[call.problem].calls.push_back(call.call);
    }
    std::erase_if(problems, [](const PackProblem& problem) { return problem.calls.empty(); });
    return problems;
}

std::optional<PackProblem> pack_problem(const check::GeneralCall& call) {
    if (call.need == check::Need::bias || call.need == check::Need::odd_rows) return std::nullopt;
    const ProblemSizes& sizes = call.sizes;
    return PackProblem{.shape = user_shape(sizes.grouping, call.drawn),
                       .settings = {.recipe = sizes.recipe,
                                    .output = sizes.output,
                                    .backend = Backend::hopper,
                                    .layout = sizes.layout,
                                    .accumulation = sizes.accumulation,
                                    .accumulate = sizes.with_c},
                       .alpha = call.problem.alpha,
                       .kind = call.kind};
}

PackVerdict judge_ratios(const std::vector<KernelRatio>& ratios, double kernel_limit, double kind_limit) {
    std::map<std::string, std::map<std::string, std::vector<double>>> by_kind;
    for (const KernelRatio& each : ratios) by_kind[each.kind][each.kernel].push_back(each.ratio);
    PackVerdict verdict;
    for (const auto& [kind, kernels] : by_kind) {
        std::vector<double> means;
        double worst = 0;
        std::string slowest;
        for (const auto& [kernel, of_kernel] : kernels) {
            means.push_back(measure::geometric_mean(of_kernel));
            if (means.back() > 1 + kernel_limit) {
                verdict.text += fmt::format("SLOWER: {}: {:.2f} % ({})\n", kernel, (means.back() - 1) * 100, kind);
                verdict.slower = true;
            }
            if (means.back() > worst) {
                worst = means.back();
                slowest = kernel;
            }
        }
        const double mean = measure::geometric_mean(means);
        const bool slower = mean > 1 + kind_limit;
        verdict.slower |= slower;
        verdict.text += fmt::format("{}: {} kernels, time x{:.4f} in the geometric mean{}; slowest x{:.4f}: {}\n", kind,
                                    means.size(), mean, slower ? " (SLOWER)" : "", worst, slowest);
    }
    return verdict;
}

}  // namespace tilewright::bench
