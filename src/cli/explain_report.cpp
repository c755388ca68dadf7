#include "cli/explain_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "output/table.h"
#include "plan/planned_tile.h"

namespace tilewright::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t examples_of_each_rule = 3;

std::string plan_text(const Plan& plan) {
    return fmt::format("{} tiles on {} blocks of {} threads, {:.2f} waves; {} of shared memory", plan.tiles, plan.grid,
                       plan.threads, plan.waves, output::format_bytes(static_cast<double>(plan.shared_bytes)));
}

struct Term {
    std::string name;
    double seconds;
    std::string meaning;
};

std::vector<Term> terms(const Cost& cost) {
    const bool memory_bound = cost.memory > cost.compute;
    const std::string hidden = ", hidden behind the longer one";
    std::vector<Term> list{
        {"launch", cost.launch, "start and end of the kernel"},
        {"memory", cost.memory,
         fmt::format("{} through HBM once{}", output::format_bytes(static_cast<double>(cost.memory_bytes)),
                     memory_bound ? "" : hidden)},
        {"compute", cost.compute,
         fmt::format("the busiest SM at {:.2f} GHz{}", cost.clock_hertz / 1e9, memory_bound ? hidden : "")},
        {"  tensor", cost.tensor,
         fmt::format("the tensor cores multiply ({:.3g} clocks of all SMs)", static_cast<double>(cost.tensor_clocks))},
        {"  promotion", cost.promotion, "they wait for sums to be moved to fp32 and scaled"},
        {"  epilogue", cost.epilogue, "they wait for D to be stored"},
        {"  waves", cost.waves, "SMs without work in the last wave"},
        {"  delivery", cost.delivery,
         fmt::format("they wait for operands ({} from L2)", output::format_bytes(static_cast<double>(cost.l2_bytes)))},
        {"overlap", cost.overlap, "memory and compute that do not hide each other"}};
    if (cost.reduction > 0) list.push_back({"reduction", cost.reduction, "adding the partial sums of split-K"});
    if (cost.preparation > 0) {
        const std::string bytes = output::format_bytes(static_cast<double>(cost.preparation_bytes));
        list.insert(list.begin(), {"preparation", cost.preparation,
                                   "first copying, packing, decoding or expanding operands into the workspace, " +
                                       bytes + " through HBM"});
    }
    return list;
}

/// The way of a call through the GPU: what is written first, then how the kernel takes operands, scales and D.
std::string route_text(const Explanation& explanation) {
    std::string text;
    for (const WorkspaceStep& step : explanation.first) {
        text += fmt::format("first      {} {}, {}: {}\n", step.operand, step.what,
                            output::format_bytes(static_cast<double>(step.bytes)), step.why);
    }
    const Plan& chosen = *explanation.chosen;
    text += fmt::format("feed       {}\nloop       {}\n", chosen.path.feed, chosen.path.loop);
    if (chosen.has_wide_rows) text += "           (the time of wide rows is not predicted)\n";
    return text + fmt::format("scales     {}\noutput     {}\n", chosen.path.scales, chosen.path.output);
}

std::string terms_text(const Cost& cost) {
    output::Table table({{.title = "term"}, {.title = "time", .right = true}, {.title = "what"}});
    for (const Term& term : terms(cost)) table.add({term.name, output::format_duration(term.seconds), term.meaning});
    table.add(
        {"predicted", output::format_duration(cost.seconds), "launch + the longer of memory and compute + the rest"});
    return table.text();
}

std::string comparison(const char* label, const Plan& other, const Plan& chosen) {
    const double more = other.cost.seconds - chosen.cost.seconds;
    return fmt::format("{}  {}: {} ({} {}, {:.1f} %)\n", label, other.tile, output::format_duration(other.cost.seconds),
                       output::format_duration(std::abs(more)), more < 0 ? "faster" : "slower",
                       std::abs(more) / chosen.cost.seconds * 100);
}

/// Rejected candidates that share a reason, in the order in which they were found.
struct Reason {
    std::string text;
    std::size_t count = 0;
};

struct Rule {
    std::string name;
    std::vector<Reason> reasons;
    std::size_t count = 0;
};

template <class List>
auto& entry(List& list, const std::string& key, std::string std::decay_t<decltype(list.front())>::*field) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.*field == key; });
    if (found != list.end()) return *found;
    list.emplace_back();
    list.back().*field = key;
    return list.back();
}

std::vector<Rule> by_rule(const std::vector<RejectedTile>& rejected) {
    std::vector<Rule> rules;
    for (const RejectedTile& tile : rejected) {
        Rule& rule = entry(rules, tile.rule, &Rule::name);
        ++rule.count;
        ++entry(rule.reasons, tile.reason, &Reason::text).count;
    }
    return rules;
}

std::string rejected_text(const Explanation& explanation, bool all_reasons) {
    const std::size_t rejected = explanation.rejected.size();
    std::string text = fmt::format("rejected: {} of {} candidates\n", rejected, rejected + explanation.legal.size());
    for (const Rule& rule : by_rule(explanation.rejected)) {
        text += fmt::format("  {} ({})\n", rule.name, rule.count);
        const std::size_t shown =
            all_reasons ? rule.reasons.size() : std::min(rule.reasons.size(), examples_of_each_rule);
        for (std::size_t i = 0; i < shown; ++i) text += fmt::format("    {}\n", rule.reasons[i].text);
        if (shown < rule.reasons.size()) {
            text +=
                fmt::format("    and {} more reasons of this kind (--all prints them)\n", rule.reasons.size() - shown);
        }
    }
    return text;
}

ordered_json tile_json(const std::string& text) {
    const planner::PlannedTile tile = planner::parse_tile(text).value();
    const char* const multicast = tile.cluster.columns > 1 ? "a" : tile.cluster.rows > 1 ? "b" : "none";
    return {{"name", text},
            {"m", tile.shape.m},
            {"n", tile.shape.n},
            {"k", tile.k},
            {"stages", tile.stages},
            {"warpgroups", tile.shape.warpgroups},
            {"cluster", tile.cluster.size()},
            {"multicast", multicast},
            {"swap_ab", tile.swap_ab},
            {"split_k", tile.cluster.k_slices}};
}

ordered_json plan_json(const Plan& plan) {
    const Cost& cost = plan.cost;
    constexpr double us = 1e6;
    return {{"tile", tile_json(plan.tile)},
            {"variant", plan.variant},
            {"path",
             {{"feed", plan.path.feed},
              {"loop", plan.path.loop},
              {"scales", plan.path.scales},
              {"output", plan.path.output}}},
            {"has_wide_rows", plan.has_wide_rows},
            {"tiles", plan.tiles},
            {"waves", plan.waves},
            {"grid", plan.grid},
            {"threads", plan.threads},
            {"shared_bytes", plan.shared_bytes},
            {"us", cost.seconds * us},
            {"terms_us",
             {{"preparation", cost.preparation * us},
              {"launch", cost.launch * us},
              {"memory", cost.memory * us},
              {"compute", cost.compute * us},
              {"tensor", cost.tensor * us},
              {"promotion", cost.promotion * us},
              {"epilogue", cost.epilogue * us},
              {"waves", cost.waves * us},
              {"delivery", cost.delivery * us},
              {"overlap", cost.overlap * us},
              {"reduction", cost.reduction * us}}},
            {"clock_ghz", cost.clock_hertz / 1e9},
            {"memory_bytes", cost.memory_bytes},
            {"preparation_bytes", cost.preparation_bytes},
            {"l2_bytes", cost.l2_bytes},
            {"tensor_clocks", cost.tensor_clocks}};
}

ordered_json optional_plan_json(const std::optional<Plan>& plan) { return plan ? plan_json(*plan) : ordered_json(); }

}  // namespace

std::string sizes_text(const ProblemSizes& sizes) {
    std::string text = fmt::format("{} {} {} {}, m {}, n {}, k {}", name(sizes.grouping), name(sizes.recipe),
                                   name(sizes.layout), name(sizes.output), sizes.m, sizes.n, sizes.k);
    if (sizes.grouping != Grouping::dense) text += fmt::format(", {} groups", sizes.groups);
    if (sizes.expected_m > 0) text += fmt::format(", expected m {}", sizes.expected_m);
    if (sizes.first_wide_row() >= 0) text += fmt::format(", one wide row in {}", sizes.wide_rows);
    if (sizes.sm_limit > 0) text += fmt::format(", at most {} SMs", sizes.sm_limit);
    return text;
}

std::string figures_text(const DeviceDescription& device) {
    if (device.assumed.empty()) return "all figures measured";
    return fmt::format("assumed: {}; all other figures measured", fmt::join(device.assumed, ", "));
}

std::string explanation_text(const ExplainedProblem& problem, bool all_reasons) {
    const Explanation& explanation = problem.explanation;
    std::string text = fmt::format("{}\non {}, {} SMs\n{}\n\n", sizes_text(problem.sizes), problem.device.name,
                                   problem.device.sms, figures_text(problem.device));
    if (!explanation.chosen) {
        text += "no Hopper kernel:\n";
        for (const Finding& finding : explanation.unavailable) text += "  " + finding.message() + "\n";
        return text;
    }
    const Plan& chosen = *explanation.chosen;
    if (chosen.grid == 0) return text + "D is empty: nothing is launched\n";
    text += fmt::format("chosen     {}: {}, {} kernel\n           {}\n", chosen.tile,
                        output::format_duration(chosen.cost.seconds), chosen.variant, plan_text(chosen));
    if (explanation.model_choice) {
        text += fmt::format("           by a tuned row, {}\n", explanation.tuned_by);
        text += comparison("the model", *explanation.model_choice, chosen);
    }
    if (explanation.next_best) text += comparison("next best", *explanation.next_best, chosen);
    text += "\n" + route_text(explanation);
    return text + "\n" + terms_text(chosen.cost) + "\n" + rejected_text(explanation, all_reasons);
}

ordered_json explanation_json(const ExplainedProblem& problem) {
    const Explanation& explanation = problem.explanation;
    const ProblemSizes& sizes = problem.sizes;
    ordered_json unavailable = ordered_json::array();
    for (const Finding& finding : explanation.unavailable) unavailable.push_back(finding.message());
    ordered_json first = ordered_json::array();
    for (const WorkspaceStep& step : explanation.first) {
        first.push_back({{"operand", step.operand}, {"what", step.what}, {"why", step.why}, {"bytes", step.bytes}});
    }
    ordered_json rejected = ordered_json::array();
    for (const RejectedTile& tile : explanation.rejected) {
        rejected.push_back({{"tile", tile_json(tile.tile)}, {"rule", tile.rule}, {"reason", tile.reason}});
    }
    return {{"problem",
             {{"grouping", name(sizes.grouping)},
              {"recipe", name(sizes.recipe)},
              {"layout", name(sizes.layout)},
              {"output", name(sizes.output)},
              {"m", sizes.m},
              {"n", sizes.n},
              {"k", sizes.k},
              {"groups", sizes.groups},
              {"expected_m", sizes.expected_m},
              {"sm_limit", sizes.sm_limit},
              {"wide_rows", sizes.wide_rows}}},
            {"device", problem.device.name},
            {"assumed", problem.device.assumed},
            {"unavailable", std::move(unavailable)},
            {"first", std::move(first)},
            {"chosen", optional_plan_json(explanation.chosen)},
            {"next_best", optional_plan_json(explanation.next_best)},
            {"model_choice", optional_plan_json(explanation.model_choice)},
            {"tuned_by", explanation.tuned_by},
            {"legal_candidates", explanation.legal.size()},
            {"rejected", std::move(rejected)}};
}

}  // namespace tilewright::cli
