#include "cli/bench_moe_ranks.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "api/rank_layout.h"
#include "bench/moe_bench.h"
#include "bench/record.h"
#include "cli/backends.h"
#include "cli/words.h"
#include "measure/device.h"
#include "measure/statistics.h"
#include "output/file.h"
#include "output/json.h"
#include "output/streams.h"
#include "output/table.h"
#include "verify/moe_gpu_case.h"
#include "verify/shared_layer.h"

namespace tilewright::cli {
namespace {

using nlohmann::ordered_json;

struct RankTimes {
    double one = 0;  // seconds
    double all = 0;
    std::string sent{};
};

const output::Table& rank_table() {
    static const output::Table columns({{.title = "tokens of a rank", .right = true, .width = 16},
                                        {.title = "one rank", .right = true, .width = 8},
                                        {.title = "all ranks", .right = true, .width = 9},
                                        {.title = "all / one", .right = true, .width = 9},
                                        {.title = "sent", .width = 8}});
    return columns;
}

/// The results that a rank sends.
std::string sent_text(const GroupSizes& sizes) {
    const bool usual = sizes.combine == RankSums::rows || sizes.sums == Format::bf16;
    return std::string(name(sizes.combine)) + (usual ? "" : " " + std::string(name(sizes.sums)));
}

/// The whole layer, with the tokens of all ranks.
check::MoeSpec spec_of(const RankBench& arguments, std::int64_t tokens) {
    const MoeArguments& sizes = arguments.layer;
    const Moe layer = layer_of(sizes, tokens);
    return {.recipe = parse_recipe(full_recipe(sizes.recipe)).value(),
            .unit = layer.unit,
            .weights_at = layer.weights_at,
            .tokens = tokens,
            .choices = sizes.top,
            .experts = sizes.experts,
            .hidden = sizes.hidden,
            .inner = sizes.inner,
            .shared = sizes.shared,
            .with_bias = sizes.with_bias,
            .bias = Format::bf16,
            .reproducibility = layer.reproducibility};
}

void choose_experts(check::MoeCase& whole, bool skewed) {
    const check::MoeSpec& spec = whole.spec();
    const std::vector<std::int32_t> chosen =
        bench::random_experts(spec.tokens, spec.choices, spec.experts - spec.shared, skewed);
    std::copy(chosen.begin(), chosen.end(), static_cast<std::int32_t*>(whole.layer().routing.experts.data));
}

/// The median of calls one after another; the first is not counted.
template <class Call>
double median_seconds(int repeats, const Call& call) {
    std::vector<double> seconds;
    call();
    for (int i = 0; i < repeats; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return measure::median(seconds);
}

double time_one_rank(const check::MoeCase& whole, int repeats, const measure::Device* gpu) {
    if (gpu == nullptr) return median_seconds(repeats, [&] { run(whole.layer()); });
    const verify::MoeGpuCase on_gpu(whole);
    return median_seconds(repeats, [&] {
        run(on_gpu.layer(), {.stream = gpu->stream(), .workspace = on_gpu.workspace()});
        gpu->synchronize();
    });
}

RankTimes time_ranks(const RankBench& arguments, std::int64_t tokens, const measure::Device* gpu) {
    const int ranks = arguments.ranks.ranks;
    const ExpertGroupOptions options = group_of(arguments.layer, arguments.ranks, tokens);
    const auto whole = std::make_unique<check::MoeCase>(spec_of(arguments, ranks * tokens));  // frames are small
    if (std::vector<Finding> found = validate(whole->layer()); !found.empty()) throw Error(std::move(found));
    choose_experts(*whole, arguments.skewed);
    RankTimes times{.one = time_one_rank(*whole, arguments.repeats, gpu),
                    .sent = sent_text(GroupSizes(options, ranks, options.exchange))};
    verify::SharedLayer shared(*whole, options, verify::even_split(ranks * tokens, ranks));
    const verify::RankedRun how{
        .times = arguments.repeats + 1, .on_gpu = gpu != nullptr, .threads = std::max(usable_cores() / ranks, 1)};
    verify::RankedResult result = shared.run(how);
    if (!result.errors.empty()) throw Error(result.errors);
    result.seconds.erase(result.seconds.begin());
    times.all = measure::median(result.seconds);
    return times;
}

ordered_json record_of(const RankBench& arguments, std::int64_t tokens, const RankTimes& times,
                       const std::string& device) {
    const MoeArguments& layer = arguments.layer;
    return bench::with_origin(
        {{"peer", fmt::format("Tilewright {} layer over ranks of one device", TILEWRIGHT_VERSION)},
         {"op", "moe_over_ranks"},
         {"shape",
          {{"tokens_of_a_rank", tokens},
           {"ranks", arguments.ranks.ranks},
           {"experts", layer.experts},
           {"top", layer.top},
           {"shared", layer.shared},
           {"hidden", layer.hidden},
           {"inner", layer.inner}}},
         {"unit", layer.unit},
         {"recipe", layer.recipe},
         {"exchange", arguments.ranks.exchange},
         {"sent", times.sent},
         {"us", times.all * 1e6},
         {"one_rank_us", times.one * 1e6},
         {"calls", arguments.repeats},
         {"skewed", arguments.skewed},
         {"ranks_share_the_device", true},
         {"device", device}});
}

}  // namespace

void bench_moe_over_ranks(const RankBench& arguments) {
    for (const std::int64_t tokens : arguments.tokens) {  // throws for wrong options, ahead of the first line
        memory_bytes(group_of(arguments.layer, arguments.ranks, tokens), arguments.ranks.ranks);
    }
    const BackendStatus backend = chosen_backend(arguments.backend);
    std::optional<measure::Device> gpu;
    if (backend.backend == Backend::hopper) gpu.emplace();
    const bool tables = arguments.json_path != "-";
    if (tables) {
        output::print(
            "{} ranks that share one device: {}\nTheir times are not those of {} devices. {}, {} {}, by {}, {} "
            "routing\nTimes of calls one after another, with the host's part\n\n{}",
            arguments.ranks.ranks, backend.device, arguments.ranks.ranks, sizes_text(arguments.layer),
            arguments.layer.recipe, arguments.layer.unit, arguments.ranks.exchange,
            arguments.skewed ? "skewed" : "balanced", rank_table().header());
    }
    for (const std::int64_t tokens : arguments.tokens) {
        const RankTimes times = time_ranks(arguments, tokens, gpu ? &*gpu : nullptr);
        const std::string text = output::json_text(record_of(arguments, tokens, times, backend.device)) + "\n";
        if (!tables) {
            output::print("{}", text);
            continue;
        }
        output::print("{}", rank_table().line({std::to_string(tokens), output::format_duration(times.one),
                                               output::format_duration(times.all),
                                               fmt::format("{:.2f}", times.all / times.one), times.sent}));
        if (!arguments.json_path.empty()) output::append_text(arguments.json_path, text);
    }
}

}  // namespace tilewright::cli
