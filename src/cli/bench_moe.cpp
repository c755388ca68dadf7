// `tilewright bench moe`: the time of a layer of experts on a GPU, and the time of each of its two products.
#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <memory>

#include "bench/moe_bench.h"
#include "bench/record.h"
#include "cli/backends.h"
#include "cli/bench_moe_ranks.h"
#include "cli/commands.h"
#include "cli/moe_arguments.h"
#include "cli/words.h"
#include "output/file.h"
#include "output/json.h"
#include "output/streams.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

struct BenchMoeArguments {
    MoeArguments layer{};
    RankArguments ranks{};
    std::string backend = "automatic";  // of ranks
    std::string model;
    std::vector<std::int64_t> tokens{1, 8, 32, 128, 512, 4096};
    bool skewed = false;
    int repeats = 12;
    std::string json_path;
};

std::vector<std::string> model_words() {
    std::vector<std::string> words;
    for (const bench::MoeModel& model : bench::moe_models()) words.push_back(model.name);
    return words;
}

/// The sizes of the model, and its recipe unless another is asked for.
MoeArguments layer_arguments(const BenchMoeArguments& arguments, bool has_recipe) {
    MoeArguments layer = arguments.layer;
    const bool sized = layer.experts > 0 && layer.top > 0 && layer.hidden > 0 && layer.inner > 0;
    if (arguments.model.empty() == !sized) {
        throw UsageError("bench moe: expected --model (" + output::joined(model_words()) +
                         ") or --experts, --top, --hidden and --inner");
    }
    if (arguments.model.empty()) return layer;
    const bench::MoeModel& model = *std::ranges::find(bench::moe_models(), arguments.model, &bench::MoeModel::name);
    layer.experts = model.experts;
    layer.top = model.top;
    layer.hidden = model.hidden;
    layer.inner = model.inner;
    if (!has_recipe) layer.recipe = model.recipe;
    return layer;
}

const output::Table& moe_table() {
    static const output::Table columns({{.title = "tokens", .right = true, .width = 6},
                                        {.title = "experts hit", .right = true, .width = 11},
                                        {.title = "layer", .right = true, .width = 8},
                                        {.title = "up", .right = true, .width = 8},
                                        {.title = "down", .right = true, .width = 8},
                                        {.title = "layer / products", .right = true, .width = 16},
                                        {.title = "predicted", .right = true, .width = 9},
                                        {.title = "GB/s", .right = true, .width = 5},
                                        {.title = "GHz", .right = true, .width = 4}});
    return columns;
}

std::string line_of(std::int64_t tokens, const bench::MoeTimes& times) {
    const double products = times.up.seconds + times.down.seconds;
    return moe_table().line(
        {std::to_string(tokens), std::to_string(times.experts_hit), output::format_duration(times.layer.seconds),
         output::format_duration(times.up.seconds), output::format_duration(times.down.seconds),
         fmt::format("{:.2f}", times.layer.seconds / products), output::format_duration(times.predicted),
         fmt::format("{:.0f}", times.bytes / times.layer.seconds * 1e-9),
         fmt::format("{:.2f}", times.layer.hertz * 1e-9)});
}

bench::MoeTimes time_tokens(bench::GpuBench& gpu, const MoeArguments& sizes, const BenchMoeArguments& arguments,
                            std::int64_t tokens, Moe& layer) {
    layer = layer_of(sizes, tokens);
    if (std::vector<Finding> findings = validate(layer, Backend::hopper, Check::shapes); !findings.empty()) {
        throw Error(std::move(findings));
    }
    MoeArguments unpacked = sizes;
    unpacked.unpacked = true;
    const Moe raw = layer_of(unpacked, tokens);
    const auto experts = bench::random_experts(tokens, sizes.top, sizes.experts - sizes.shared, arguments.skewed);
    const bench::MoeOperands operands(layer, raw.up, raw.down, experts);
    return bench::time_moe(gpu, operands, experts, arguments.repeats);
}

void bench_moe_command(const BenchMoeArguments& arguments, bool has_recipe) {
    const MoeArguments sizes = layer_arguments(arguments, has_recipe);
    if (arguments.ranks.ranks > 0) {
        return bench_moe_over_ranks({.layer = sizes,
                                     .ranks = arguments.ranks,
                                     .tokens = arguments.tokens,
                                     .backend = arguments.backend,
                                     .skewed = arguments.skewed,
                                     .repeats = arguments.repeats,
                                     .json_path = arguments.json_path});
    }
    require_gpu("bench moe without --ranks");
    bench::GpuBench gpu(measure::Flush::clean);
    const bool tables = arguments.json_path != "-";
    if (tables) {
        output::print("{}, {} {}, {} routing\non {}; L2 flushed before each call\n\n{}", sizes_text(sizes),
                      sizes.recipe, sizes.unit, arguments.skewed ? "skewed" : "balanced", gpu.device().name(),
                      moe_table().header());
    }
    for (const std::int64_t tokens : arguments.tokens) {
        Moe layer;
        const bench::MoeTimes times = time_tokens(gpu, sizes, arguments, tokens, layer);
        if (tables) output::print("{}", line_of(tokens, times));
        nlohmann::ordered_json record = bench::moe_record(layer, times);
        record["recipe"] = sizes.recipe;
        record["skewed"] = arguments.skewed;
        record["flush"] = "clean";
        record["device"] = gpu.device().name();
        const std::string text = output::json_text(bench::with_origin(std::move(record))) + "\n";
        if (!tables) output::print("{}", text);
        if (tables && !arguments.json_path.empty()) output::append_text(arguments.json_path, text);
    }
}

}  // namespace

void add_bench_moe(CLI::App& bench) {
    CLI::App* command = bench.add_subcommand("moe", "Time a layer of experts on a GPU, and each of its two products");
    command->footer(
        "Times are those of the kernels of a call, added up; caches are emptied before each call. Tokens choose "
        "random\n"
        "experts. `tilewright verify moe` checks the results.\n\nWith --ranks, on the CPU too: the layer over ranks "
        "that are threads and share the device, and the layer by one rank with\nthe tokens of all. Experts are those "
        "of all ranks, and tokens those of each. FP4 weights are packed on each call.\n\nExample:\n  tilewright bench "
        "moe --model qwen3-30b --tokens 1,32,512\n  tilewright bench moe --experts 64 --top 6 --hidden 2048 --inner "
        "1408 --skew --json times.jsonl\n  tilewright bench moe --experts 8 --top 2 --hidden 512 --inner 256 --tokens "
        "32 --ranks 2");
    const auto arguments = std::make_shared<BenchMoeArguments>();
    command->add_option("--model", arguments->model, "The layer of a model: " + output::joined(model_words()))
        ->check(one_of("model", model_words()));
    add_moe_size_options(*command, arguments->layer);
    command->add_option("--tokens", arguments->tokens, "Tokens of a call; a list is allowed")
        ->check(whole_number(1, most_int))
        ->delimiter(',')
        ->capture_default_str();
    add_moe_kind_options(*command, arguments->layer);
    command->add_flag("--skew", arguments->skewed,
                      "One expert is 30 times as likely as others, half of them have none");
    command->add_option("--repeats", arguments->repeats, "Number of timed calls; the median is reported")
        ->check(whole_number(1, most_int))
        ->capture_default_str();
    add_moe_rank_options(*command, arguments->ranks, most_ranks_with_addresses,
                         "Time the layer over this number of ranks, which share the device");
    command->add_option("--backend", arguments->backend, "Of ranks: automatic, cpu or hopper")
        ->check(one_of("backend", backend_words()))
        ->needs("--ranks")
        ->capture_default_str();
    command->add_option("--json", arguments->json_path,
                        "Append one JSON object per line to this file (-: only to stdout)");
    command->callback([arguments, command] { bench_moe_command(*arguments, command->count("--recipe") > 0); });
}

}  // namespace tilewright::cli
