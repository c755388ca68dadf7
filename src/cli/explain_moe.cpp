// `tilewright explain moe`: the kernels of a layer of experts on a Hopper GPU, or its steps over ranks, and their
// predicted times. Needs no GPU.
#include <fmt/format.h>
#include <tilewright/error.h>
#include <tilewright/expert_group.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/explain_report.h"
#include "cli/moe_arguments.h"
#include "cli/words.h"
#include "output/json.h"
#include "output/streams.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

using nlohmann::ordered_json;

struct ExplainMoeArguments {
    MoeArguments layer{};
    RankArguments ranks{};
    std::int64_t tokens = 0;
    std::string device;  // empty: default_device()
    bool json = false;

    bool has_ranks() const { return ranks.ranks > 0; }
};

MoeStep total_of(const std::vector<MoeStep>& steps) {
    MoeStep total{.name = "total", .launches = 0};
    for (const MoeStep& step : steps) {
        total.seconds += step.seconds;
        total.bytes += step.bytes;
        total.link_bytes += step.link_bytes;
        total.exposed_seconds += step.exposed_seconds;
        total.launches += step.launches;
    }
    return total;
}

std::string bytes_text(std::int64_t bytes) { return output::format_bytes(static_cast<double>(bytes)); }

output::Table table_of(const std::vector<MoeStep>& steps, bool has_ranks) {
    std::vector<output::Column> columns{{.title = "step"},
                                        {.title = "launches", .right = true},
                                        {.title = "time", .right = true},
                                        {.title = "bytes", .right = true}};
    if (has_ranks) {
        columns.push_back({.title = "exposed", .right = true});
        columns.push_back({.title = "from others", .right = true});
    }
    columns.push_back({.title = "what"});
    output::Table table(columns);
    const auto add = [&](const MoeStep& step) {
        std::vector<std::string> cells{step.name, std::to_string(step.launches), output::format_duration(step.seconds),
                                       bytes_text(step.bytes)};
        if (has_ranks) {
            cells.push_back(output::format_duration(step.exposed_seconds));
            cells.push_back(bytes_text(step.link_bytes));
        }
        cells.push_back(step.what);
        table.add(cells);
    };
    for (const MoeStep& step : steps) add(step);
    add(total_of(steps));
    return table;
}

void print_table(const ExplainMoeArguments& arguments, const DeviceDescription& device,
                 const std::vector<MoeStep>& steps) {
    const std::string of_ranks =
        arguments.has_ranks() ? fmt::format(" on each of {} ranks", arguments.ranks.ranks) : "";
    output::print("{} tokens{}, {}, {} {}\non {}, {} SMs; groups of equal size\n{}\n\n{}", arguments.tokens, of_ranks,
                  sizes_text(arguments.layer), arguments.layer.recipe, arguments.layer.unit, device.name, device.sms,
                  figures_text(device), table_of(steps, arguments.has_ranks()).text());
}

ordered_json json_of(const ExplainMoeArguments& arguments, const DeviceDescription& device,
                     const std::vector<MoeStep>& steps) {
    ordered_json list = ordered_json::array();
    for (const MoeStep& step : steps) {
        list.push_back({{"name", step.name},
                        {"what", step.what},
                        {"launches", step.launches},
                        {"us", step.seconds * 1e6},
                        {"memory_bytes", step.bytes}});
        if (!arguments.has_ranks()) continue;
        list.back()["exposed_us"] = step.exposed_seconds * 1e6;
        list.back()["link_bytes"] = step.link_bytes;
    }
    const MoeStep total = total_of(steps);
    ordered_json report{{"layer",
                         {{"tokens", arguments.tokens},
                          {"experts", arguments.layer.experts},
                          {"top", arguments.layer.top},
                          {"shared", arguments.layer.shared},
                          {"hidden", arguments.layer.hidden},
                          {"inner", arguments.layer.inner},
                          {"recipe", arguments.layer.recipe},
                          {"unit", arguments.layer.unit},
                          {"weights_at", arguments.layer.weights_at}}},
                        {"device", device.name},
                        {"assumed", device.assumed},
                        {"launches", total.launches},
                        {"us", total.seconds * 1e6},
                        {"memory_bytes", total.bytes},
                        {"kernels", std::move(list)}};
    if (arguments.has_ranks()) {
        report["layer"]["ranks"] = arguments.ranks.ranks;
        report["layer"]["exchange"] = arguments.ranks.exchange;
        report["exposed_us"] = total.exposed_seconds * 1e6;
        report["link_bytes"] = total.link_bytes;
    }
    return report;
}

std::vector<MoeStep> steps_of(const ExplainMoeArguments& arguments, const DeviceDescription& device) {
    if (!arguments.has_ranks()) return explain(layer_of(arguments.layer, arguments.tokens), device);
    const RankArguments& ranks = arguments.ranks;
    return explain(layer_of(of_each_rank(arguments.layer, ranks.ranks), arguments.tokens),
                   group_of(arguments.layer, ranks, arguments.tokens), ranks.ranks, true, device);
}

void explain_moe_command(const ExplainMoeArguments& arguments) {
    const DeviceDescription device = arguments.device.empty() ? default_device() : device_of(arguments.device);
    std::vector<MoeStep> steps;
    try {
        steps = steps_of(arguments, device);
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        std::vector<std::string> messages;
        std::transform(error.findings().begin(), error.findings().end(), std::back_inserter(messages),
                       [](const Finding& finding) { return finding.message(); });
        throw UsageError(output::joined(messages, "\n            "));
    }
    if (arguments.json) return output::print("{}\n", output::json_text(json_of(arguments, device, steps), 2));
    print_table(arguments, device, steps);
}

}  // namespace

void add_explain_moe(CLI::App& explain) {
    CLI::App* command =
        explain.add_subcommand("moe", "Show the kernels of a layer of experts and their predicted times");
    command->footer(fmt::format(
        "Needs no GPU. Assumes groups of equal size. Products have their plan's tile and time; the time of the other "
        "kernels\nis a launch and their bytes.\n\nWith --ranks: the steps of one round, of at most {} tokens of each "
        "GPU. --experts are those of all GPUs. Each GPU has\nall shared experts. The times between GPUs are those of "
        "NVLink, measured on two H100. The exposed part\nof a time waits for other GPUs.\n\nExample:\n  tilewright "
        "explain moe --experts 128 --top 8 --hidden 2048 "
        "--inner 768 --tokens 512 --recipe 1x128:128x128\n  tilewright explain moe --experts 128 --top 8 --hidden 2048 "
        "--inner 768 --tokens 512 --ranks 8 --device h100",
        ExpertGroupOptions{}.chunk));
    const auto arguments = std::make_shared<ExplainMoeArguments>();
    add_moe_size_options(*command, arguments->layer);
    for (const char* needed : {"--experts", "--top", "--hidden", "--inner"}) command->get_option(needed)->required();
    command->add_option("--tokens", arguments->tokens, "Tokens of the call")
        ->required()
        ->check(whole_number(1, most_int));
    add_moe_kind_options(*command, arguments->layer);
    add_moe_rank_options(*command, arguments->ranks, most_ranks,
                         "GPUs of one host over which the experts are spread; tokens are then those of each GPU");
    command
        ->add_option("--device", arguments->device,
                     output::joined(device_words()) + " or a device file; default: this machine's GPU, or h200")
        ->check(known_device());
    command->add_flag("--json", arguments->json, "Print everything as JSON");
    command->callback([arguments] { explain_moe_command(*arguments); });
}

}  // namespace tilewright::cli
