#include "cli/support_table.h"

#include <fmt/format.h>
#include <tilewright/run.h>

#include <algorithm>
#include <array>
#include <map>

#include "output/table.h"
#include "plan/choose.h"
#include "plan/shipped_kernels.h"
#include "plan/variant.h"
#include "plan/workload.h"
#include "problem/gpu_routes.h"
#include "problem/packed_problem.h"
#include "problem/problem_sizes.h"

namespace tilewright::cli {
namespace {

struct Side {
    const char* word;  // as `parse_operand_recipe` reads it
    const char* title;
};
constexpr std::array activation_sides{Side{"tensor", "fp8, per tensor"},
                                      Side{"row", "fp8, per row"},
                                      Side{"1x128", "fp8, 1x128"},
                                      Side{"128x128", "fp8, 128x128"},
                                      Side{"mxfp8", "MXFP8"},
                                      Side{"mxfp4", "MXFP4"},
                                      Side{"nvfp4", "NVFP4"},
                                      Side{"bf16", "bf16"}};
constexpr std::array weight_sides{Side{"tensor", "per tensor"}, Side{"row", "per row"},    Side{"1x128", "1x128"},
                                  Side{"128x128", "128x128"},   Side{"e4m3", "no scales"}, Side{"mxfp8", "MXFP8"},
                                  Side{"mxfp4", "MXFP4"},       Side{"nvfp4", "NVFP4"},    Side{"bf16", "bf16"}};

struct Column {
    Grouping grouping;
    const char* title;
};
constexpr std::array groupings{Column{Grouping::dense, "dense"},
                               Column{Grouping::batched, "batched"},
                               Column{Grouping::m_grouped_offsets, "m: offsets"},
                               Column{Grouping::m_grouped_aligned_offsets, "m: aligned offsets"},
                               Column{Grouping::m_grouped_indices, "m: row indices"},
                               Column{Grouping::m_grouped_masked, "m: masked"},
                               Column{Grouping::k_grouped, "k: offsets"},
                               Column{Grouping::k_grouped_aligned_offsets, "k: aligned offsets"},
                               Column{Grouping::k_grouped_flat, "k: flat"}};

/// WellFormed.EveryGroupingLayoutAndRecipe (tests/problem) tests the sentence on the CPU, over `all_recipes`.
constexpr const char* legend =
    "● Hopper, precompiled · ○ Hopper, compiled on first use · ◐ Hopper, ● or ○ by sizes.\n"
    "c: CPU only. Blank: no such recipe. The CPU runs every recipe in every grouping and layout.";

/// Few rows, many rows, and rows between; n and k of DeepSeek-V3 and gpt-oss.
std::vector<ProblemSizes> typical_sizes(const SupportQuery& query) {
    constexpr int groups = 8;
    constexpr std::array<std::array<std::int64_t, 2>, 3> weights_of{{{4096, 7168}, {7168, 2048}, {5760, 2880}}};
    std::vector<ProblemSizes> list;
    for (const auto& [n, k] : weights_of) {
        for (const std::int64_t rows : {1, 16, 64, 512, 4096}) {
            ProblemSizes sizes{.grouping = query.grouping, .recipe = query.recipe, .layout = query.layout};
            sizes.n = n;
            sizes.k = k;
            // Two FP4 values share a byte, along m in layouts tn and tt.
            sizes.m = a_is_transposed(query.layout) ? std::max<std::int64_t>(rows, 2) : rows;
            if (query.grouping != Grouping::dense) sizes.groups = groups;
            if (is_k_grouped(query.grouping)) {
                sizes.m = k;
                sizes.k = groups * std::max<std::int64_t>(rows, 128);
            } else if (query.grouping == Grouping::m_grouped_masked) {
                sizes.expected_m = rows;
            } else if (query.grouping != Grouping::dense && query.grouping != Grouping::batched) {
                sizes.m = groups * rows;
            }
            list.push_back(sizes);
        }
    }
    return list;
}

bool is_precompiled(const Problem& problem, const DeviceDescription& device) {
    static const std::vector<hopper::Kernel> pack = planner::shipped_kernels();
    const planner::Workload work = planner::workload(problem);
    const hopper::Kernel tile = planner::choose(work, device, planner::tuned_rows());
    return std::ranges::find(pack, planner::variant(work.geometry, tile)) != pack.end();
}

/// Whose kernels run may follow from the device.
std::array<const DeviceDescription*, 2> devices() { return {&h200(), &device_named("h100")}; }

Recipe recipe_of(const Side& a, const Side& b) {
    return {*parse_operand_recipe(a.word), *parse_operand_recipe(b.word)};
}

SupportAnswer asked(const SupportQuery& query) {
    if (!is_accepted(query.recipe)) return {};
    bool all = true, any = false;
    SupportAnswer answer;
    for (const ProblemSizes& sizes : typical_sizes(query)) {
        Problem problem = problem_of(sizes);
        if (!validate(problem, Backend::cpu, Check::shapes).empty()) return {};
        if (query.packed && takes_packed_weights(problem)) problem = with_packed_shape(problem, sizes);
        if (!validate(problem, Backend::hopper, Check::shapes).empty()) return {.support = Support::cpu};
        answer.has_workspace = answer.has_workspace || workspace_bytes(problem) > 0;
        for (const DeviceDescription* device : devices()) {
            const bool precompiled = is_precompiled(problem, *device);
            all = all && precompiled;
            any = any || precompiled;
        }
    }
    answer.support = all ? Support::precompiled : any ? Support::partly : Support::compiled;
    return answer;
}

template <class Visit>
void for_each_pair(Visit visit) {
    for (const Side& a : activation_sides) {
        for (const Side& b : weight_sides) {
            if (is_accepted(recipe_of(a, b))) visit(a, b, recipe_of(a, b));
        }
    }
}

std::string cell(const SupportQuery& query) { return symbol(support(query).support); }

std::string cell_with_workspace(const SupportQuery& query) {
    const SupportAnswer answer = support(query);
    return symbol(answer.support) + (answer.has_workspace ? " w" : "");
}

bool runs_on_hopper(const Recipe& recipe) { return support({.recipe = recipe}).support >= Support::compiled; }

SupportTable recipes() {
    SupportTable table{.title = "Recipes", .head = {"activations ↓, weights →"}};
    table.note = "Marks: dense, layout nt, e4m3 values, f32 scales, packed FP4 weights. The first 5 columns are fp8.";
    for (const Side& b : weight_sides) table.head.emplace_back(b.title);
    for (const Side& a : activation_sides) {
        std::vector<std::string> row{a.title};
        for (const Side& b : weight_sides) row.push_back(cell({.recipe = recipe_of(a, b)}));
        table.rows.push_back(std::move(row));
    }
    return table;
}

/// Groupings that one word names in the short table.
struct Family {
    const char* title;
    std::vector<Grouping> members;
};

const std::vector<Family>& families() {
    static const std::vector<Family> list{
        {"dense", {Grouping::dense}},
        {"batched", {Grouping::batched}},
        {"m-grouped",
         {Grouping::m_grouped_offsets, Grouping::m_grouped_aligned_offsets, Grouping::m_grouped_indices,
          Grouping::m_grouped_masked}},
        {"k-grouped", {Grouping::k_grouped, Grouping::k_grouped_aligned_offsets, Grouping::k_grouped_flat}}};
    return list;
}

bool all_run_on_hopper(const std::vector<Recipe>& recipes, Grouping grouping, Layout layout) {
    return std::ranges::all_of(recipes, [&](const Recipe& recipe) {
        return support({.recipe = recipe, .grouping = grouping, .layout = layout}).support >= Support::compiled;
    });
}

SupportTable groupings_and_layouts() {
    SupportTable table{.title = "Groupings and layouts",
                       .head = {"activations x weights", "groupings on a GPU", "layouts on a GPU"}};
    table.note = "A GPU runs marked recipes in these groupings and layouts. It refuses other calls (`InvalidCall`).";
    for (const SupportRule& rule : support_rules()) {
        std::vector<std::string> layouts;
        for (const Layout layout : rule.layouts) layouts.emplace_back(name(layout));
        table.rows.push_back({rule.title, fmt::format("{}", fmt::join(rule.families, ", ")),
                              fmt::format("{}", fmt::join(layouts, ", "))});
    }
    return table;
}

SupportTable by_grouping() {
    SupportTable table{.title = "By grouping", .head = {"recipe"}};
    table.note = "Layout nt. Only recipes that a Hopper GPU runs; m: m-grouped, k: k-grouped.";
    for (const Column& column : groupings) table.head.emplace_back(column.title);
    for_each_pair([&](const Side&, const Side&, const Recipe& recipe) {
        if (!runs_on_hopper(recipe)) return;
        std::vector<std::string> row{"`" + name(recipe) + "`"};
        for (const Column& column : groupings) row.push_back(cell({.recipe = recipe, .grouping = column.grouping}));
        table.rows.push_back(std::move(row));
    });
    return table;
}

SupportTable by_layout() {
    SupportTable table{.title = "By layout", .head = {"recipe"}};
    table.note =
        "w: some sizes need a workspace, where the call first copies, decodes or "
        "expands an operand.";
    constexpr std::array shown{Column{Grouping::dense, "dense"}, Column{Grouping::m_grouped_offsets, "m-grouped"},
                               Column{Grouping::k_grouped, "k-grouped"}};
    for (const Column& column : shown) {
        for (const Layout layout : all_layouts) table.head.push_back(fmt::format("{} {}", column.title, name(layout)));
    }
    for_each_pair([&](const Side&, const Side&, const Recipe& recipe) {
        if (!runs_on_hopper(recipe)) return;
        std::vector<std::string> row{"`" + name(recipe) + "`"};
        for (const Column& column : shown) {
            for (const Layout layout : all_layouts)
                row.push_back(cell_with_workspace({.recipe = recipe, .grouping = column.grouping, .layout = layout}));
        }
        table.rows.push_back(std::move(row));
    });
    return table;
}

SupportTable fp4_weights() {
    SupportTable table{
        .title = "FP4 weights, packed and not",
        .head = {"recipe", "dense, packed", "dense, not packed", "m-grouped, packed", "m-grouped, not packed"}};
    table.note = "Layout nt. Weights that are not packed are packed by each call, into a workspace (w).";
    for_each_pair([&](const Side&, const Side&, const Recipe& recipe) {
        const std::optional<GpuRoute> route = gpu_route(recipe);
        if (!route || route->b != Arrival::tiles) return;
        std::vector<std::string> row{"`" + name(recipe) + "`"};
        for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets}) {
            for (const bool packed : {true, false})
                row.push_back(cell_with_workspace({.recipe = recipe, .grouping = grouping, .packed = packed}));
        }
        table.rows.push_back(std::move(row));
    });
    return table;
}

SupportTable other_formats() {
    SupportTable table{.title = "Other formats of values and scales",
                       .head = {"recipe", "dense", "m-grouped", "k-grouped"}};
    table.note = "Layout nt. Gradients may be e5m2, 1x128 and 128x128 scales may be powers of two (ue8m0).";
    constexpr std::array words{"e5m2.tensor:tensor",
                               "e5m2.row:row",
                               "e5m2.1x128:128x128",
                               "e5m2.1x128:1x128",
                               "tensor:e5m2.tensor",
                               "1x128:e5m2.128x128",
                               "1x128.ue8m0:128x128.ue8m0",
                               "1x128.ue8m0:1x128.ue8m0",
                               "1x128.ue8m0:128x128",
                               "e5m2.1x32:mxfp8",
                               "f16:f16",
                               "f32:f32",
                               "f16:mxfp4",
                               "f32:nvfp4"};
    for (const char* word : words) {
        const Recipe recipe = recipe_named(word);
        std::vector<std::string> row{"`" + name(recipe) + "`"};
        for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets, Grouping::k_grouped})
            row.push_back(cell({.recipe = recipe, .grouping = grouping}));
        table.rows.push_back(std::move(row));
    }
    return table;
}

}  // namespace

/// Several tables ask the same.
SupportAnswer support(const SupportQuery& query) {
    static std::map<std::string, SupportAnswer> answers;
    const std::string key =
        fmt::format("{} {} {} {}", name(query.recipe), name(query.grouping), name(query.layout), query.packed);
    const auto [entry, is_new] = answers.try_emplace(key);
    if (is_new) entry->second = asked(query);
    return entry->second;
}

std::vector<SupportRule> support_rules() {
    std::vector<SupportRule> rules;
    for (const PairGroup* group : pair_groups) {
        SupportRule& rule = rules.emplace_back(SupportRule{.title = group->title});
        for_each_pair([&](const Side&, const Side&, const Recipe& recipe) {
            const std::optional<GpuRoute> route = gpu_route(recipe);
            if (route && route->group == group) rule.recipes.push_back(recipe);
        });
        for (const Family& family : families()) {
            const bool all = std::ranges::all_of(family.members, [&](Grouping grouping) {
                return all_run_on_hopper(rule.recipes, grouping, Layout::nt);
            });
            if (!all) continue;
            rule.families.emplace_back(family.title);
            rule.groupings.insert(rule.groupings.end(), family.members.begin(), family.members.end());
        }
        for (const Layout layout : all_layouts) {
            if (all_run_on_hopper(rule.recipes, Grouping::dense, layout)) rule.layouts.push_back(layout);
        }
    }
    return rules;
}

std::string symbol(Support support) {
    switch (support) {
        case Support::none: return "";
        case Support::cpu: return "c";
        case Support::compiled: return "○";
        case Support::partly: return "◐";
        case Support::precompiled: return "●";
    }
    return "";
}

std::vector<SupportTable> short_support() { return {recipes(), groupings_and_layouts()}; }

std::vector<SupportTable> all_support() {
    return {recipes(), groupings_and_layouts(), by_grouping(), by_layout(), fp4_weights(), other_formats()};
}

std::string support_legend() { return legend; }

std::string markdown(const SupportTable& table) {
    std::string text = fmt::format("| {} |\n|---{}|\n", fmt::join(table.head, " | "), [&] {
        std::string rules;
        for (std::size_t i = 1; i < table.head.size(); ++i) rules += "|:-:";
        return rules;
    }());
    for (const std::vector<std::string>& row : table.rows) text += fmt::format("| {} |\n", fmt::join(row, " | "));
    return text;
}

std::string aligned_text(const SupportTable& table) {
    std::vector<output::Column> columns;
    for (const std::string& title : table.head) columns.push_back({.title = title});
    output::Table text(columns);
    for (std::vector<std::string> row : table.rows) {
        std::erase(row.front(), '`');
        text.add(std::move(row));
    }
    return text.text();
}

}  // namespace tilewright::cli
