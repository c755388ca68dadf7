// `tilewright explain moe`: the kernels of a layer of experts on a Hopper GPU and their predicted times. Needs no GPU.
#include <fmt/format.h>
#include <tilewright/moe.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/moe_arguments.h"
#include "cli/words.h"
#include "output/streams.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

using nlohmann::ordered_json;

struct ExplainMoeArguments {
    MoeArguments layer{};
    std::int64_t tokens = 0;
    std::string device;  // empty: default_device()
    bool json = false;
};

MoeStep total_of(const std::vector<MoeStep>& steps) {
    MoeStep total{.name = "total"};
    for (const MoeStep& step : steps) {
        total.seconds += step.seconds;
        total.bytes += step.bytes;
    }
    return total;
}

void print_table(const ExplainMoeArguments& arguments, const DeviceDescription& device,
                 const std::vector<MoeStep>& steps) {
    output::Table table(
        {{.title = "kernel"}, {.title = "time", .right = true}, {.title = "bytes", .right = true}, {.title = "what"}});
    const auto add = [&](const MoeStep& step) {
        table.add({step.name, output::format_duration(step.seconds),
                   output::format_bytes(static_cast<double>(step.bytes)), step.what});
    };
    for (const MoeStep& step : steps) add(step);
    add(total_of(steps));
    output::print("{} tokens, {}, {} {}\non {}, {} SMs; groups of equal size\n\n{}", arguments.tokens,
                  sizes_text(arguments.layer), arguments.layer.recipe, arguments.layer.unit, device.name, device.sms,
                  table.text());
}

ordered_json json_of(const ExplainMoeArguments& arguments, const DeviceDescription& device,
                     const std::vector<MoeStep>& steps) {
    ordered_json list = ordered_json::array();
    for (const MoeStep& step : steps) {
        list.push_back(
            {{"name", step.name}, {"what", step.what}, {"us", step.seconds * 1e6}, {"memory_bytes", step.bytes}});
    }
    const MoeStep total = total_of(steps);
    return {{"layer",
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
            {"us", total.seconds * 1e6},
            {"memory_bytes", total.bytes},
            {"kernels", std::move(list)}};
}

void explain_moe_command(const ExplainMoeArguments& arguments) {
    const Moe layer = layer_of(arguments.layer, arguments.tokens);
    const std::vector<Finding> findings = validate(layer, Backend::hopper, Check::shapes);
    if (!findings.empty()) {
        std::vector<std::string> messages;
        std::transform(findings.begin(), findings.end(), std::back_inserter(messages),
                       [](const Finding& finding) { return finding.message(); });
        throw UsageError(output::joined(messages, "\n            "));
    }
    const DeviceDescription device = arguments.device.empty() ? default_device() : device_of(arguments.device);
    const std::vector<MoeStep> steps = explain(layer, device);
    if (arguments.json) return output::print("{}\n", json_of(arguments, device, steps).dump(2));
    print_table(arguments, device, steps);
}

}  // namespace

void add_explain_moe(CLI::App& explain) {
    CLI::App* command =
        explain.add_subcommand("moe", "Show the kernels of a layer of experts and their predicted times");
    command->footer(
        "Needs no GPU. Assumes groups of equal size. Products have their plan's tile and time; the time of the other "
        "kernels\nis a launch and their bytes.\n\nExample:\n  tilewright explain moe --experts 128 --top 8 --hidden "
        "2048 --inner 768 --tokens 512 --recipe 1x128:128x128");
    const auto arguments = std::make_shared<ExplainMoeArguments>();
    add_moe_size_options(*command, arguments->layer);
    for (const char* needed : {"--experts", "--top", "--hidden", "--inner"}) command->get_option(needed)->required();
    command->add_option("--tokens", arguments->tokens, "Tokens of the call")->required()->check(whole_number(1));
    add_moe_kind_options(*command, arguments->layer);
    command
        ->add_option("--device", arguments->device,
                     output::joined(device_words()) + " or a device file; default: this machine's GPU, or h200")
        ->check(known_device());
    command->add_flag("--json", arguments->json, "Print everything as JSON");
    command->callback([arguments] { explain_moe_command(*arguments); });
}

}  // namespace tilewright::cli
