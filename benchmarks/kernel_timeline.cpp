// Shows what one block of a kernel does, clock by clock: a shipped kernel compiled with time stamps (Debug::stamps).
//
//   kernel_timeline [OUTPUT]         lines of JSON, to standard output without a name
//   kernel_timeline --help           other calls
//
// Without options the tile is 128x128 of fp8 with 1x128 : 128x128 scales, m = 4096, n = 7168, k = 2048. With --groups,
// m is the mean of a group, and with --max-m they are masked.
// - The first line describes the run, with the times of the kernel that ships and of the one with stamps.
// - Then there is a line for one warp of each role, of a few blocks: its events and the SM's clock at each, from the
//   first stamp of the block on.
//
// The stamped result must have the bits of the shipped one. benchmarks/plot_timeline.py draws it.
#include <fmt/format.h>
#include <tilewright/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/commit.h"
#include "bench/gpu_bench.h"
#include "bench/record.h"
#include "cuda/runtime.h"
#include "hopper/arguments.h"
#include "hopper/description/design.h"
#include "launch/kernels.h"
#include "launch/launch.h"
#include "plan/choose.h"
#include "plan/planned_tile.h"
#include "plan/variant.h"
#include "problem/geometry.h"

namespace tilewright::benchmark {
namespace {

using Json = nlohmann::ordered_json;
using hopper::Event;
using hopper::Stamp;

constexpr int rounds = 20;
constexpr std::array shown_blocks{0, 1, 65, 131};

const char* word(Event event) {
    switch (event) {
        case Event::none: break;
        case Event::begins: return "begins";
        case Event::passes: return "passes";
        case Event::takes: return "takes";
        case Event::waits_empty: return "waits_empty";
        case Event::loads: return "loads";
        case Event::waits_full: return "waits_full";
        case Event::multiplies: return "multiplies";
        case Event::released: return "released";
        case Event::epilogue: return "epilogue";
        case Event::staged: return "staged";
    }
    return "?";
}

/// One warp of each role that stamps, by its place in the block.
struct Stamping {
    int warp;
    const char* role;
};
constexpr std::array stamping{Stamping{0, "load"}, Stamping{1, "scheduler"}, Stamping{4, "multiply 0"},
                              Stamping{8, "multiply 1"}};

class Timeline {
public:
    Timeline(const bench::BenchShape& shape, const planner::PlannedTile& tile)
        : harness_(measure::Flush::clean),
          operands_(bench::gpu_operands(shape,
                                        {.recipe = parse_recipe("1x128:128x128").value(), .backend = Backend::hopper})),
          problem_(operands_.on_device()),
          geometry_(tilewright::geometry(problem_)),
          shipped_(planner::variant(geometry_, planner::runnable_tile(tile, problem_, harness_.description()))),
          device_(cuda::runtime().device(0)),
          stamped_(prepared()) {}

    std::string lines() {
        const std::vector<measure::Contestant> both{
            {.name = "shipped", .call = [&](cuda::StreamHandle stream) { run_shipped(stream); }},
            {.name = "stamped", .call = [&](cuda::StreamHandle stream) { run_stamped(stream); }}};
        const auto hash = [&](const measure::Contestant& of) {
            return bench::output_hash(harness_.device(), operands_, of.call);
        };
        if (hash(both[0]) != hash(both[1])) {
            throw Error("the kernel with stamps has other bits than the one that ships");
        }
        const std::vector<measure::Measurement> times = harness_.stopwatch().race(both, rounds);
        std::string text = about(times).dump() + "\n";
        // Once more, without a flush of L2 ahead of it.
        report_.fill(0);
        run_stamped(harness_.device().stream());
        harness_.device().synchronize();
        std::vector<std::uint64_t> words(report_.size() / sizeof(std::uint64_t));
        report_.download(words.data(), report_.size());
        if (std::any_of(words.begin(), words.begin() + report_words, [](std::uint64_t word) { return word != 0; })) {
            throw Error(fmt::format("the kernel with stamps left a report: {:#x}",
                                    fmt::join(words.begin(), words.begin() + report_words, " ")));
        }
        for (const int block : shown_blocks) {
            if (block < stamped_.blocks) text += block_lines(words, block);
        }
        return text;
    }

private:
    static constexpr std::ptrdiff_t report_words = sizeof(hopper::KernelReport) / sizeof(std::uint64_t);

    cuda::ReadyLaunch prepared() {
        hopper::Kernel tile = shipped_;
        tile.debug.stamps = true;
        cuda::ReadyLaunch ready = device_.ready(
            device_.kernel(tile), launch::lower(geometry_, planner::given_kernel(geometry_, tile), device_.sms()));
        warps_ = hopper::Design(tile).threads / hopper::warp_threads;
        report_ = measure::Buffer(sizeof(hopper::KernelReport) +
                                  sizeof(Stamp) * static_cast<std::size_t>(ready.blocks * warps_ * Stamp::per_warp()));
        report_.fill(0);
        ready.arguments.report = reinterpret_cast<hopper::KernelReport*>(report_.data());
        return ready;
    }

    void run_shipped(cuda::StreamHandle stream) { cuda::runtime().run(geometry_, shipped_, {.stream = stream}); }
    void run_stamped(cuda::StreamHandle stream) { device_.launch(stamped_, {stream}); }

    Json about(const std::vector<measure::Measurement>& times) const {
        return {{"kernel", launch::describe(shipped_)},
                {"shape", {geometry_.m, geometry_.n, geometry_.k}},
                {"device", harness_.description().name},
                {"commit", TILEWRIGHT_COMMIT},
                {"date", bench::today()},
                {"command", bench::command_line()},
                {"blocks", stamped_.blocks},
                {"shipped_us", times[0].seconds * 1e6},
                {"stamped_us", times[1].seconds * 1e6}};
    }

    /// A block's warps that stamp.
    std::string block_lines(const std::vector<std::uint64_t>& words, int block) const {
        const auto stamps_of = [&](int warp) {
            const auto first = words.begin() + report_words + std::ptrdiff_t{block * warps_ + warp} * Stamp::per_warp();
            std::vector<Stamp> stamps;
            for (auto at = first; at != first + Stamp::per_warp() && Stamp{*at}.event() != Event::none; ++at) {
                stamps.push_back({*at});
            }
            return stamps;
        };
        const std::vector<Stamp> loads = stamps_of(0);
        if (loads.empty()) throw Error(fmt::format("block {} has no stamps", block));
        const std::uint64_t begin = loads.front().clock();
        std::string text;
        for (const auto& [warp, role] : stamping) {
            if (warp >= warps_ || stamps_of(warp).empty()) continue;
            Json events = Json::array();
            Json clocks = Json::array();
            for (const Stamp stamp : stamps_of(warp)) {
                events.push_back(word(stamp.event()));
                clocks.push_back(static_cast<std::int64_t>(stamp.clock() - begin));
            }
            text +=
                Json{{"block", block}, {"warp", warp}, {"role", role}, {"events", events}, {"clocks", clocks}}.dump();
            text += "\n";
        }
        return text;
    }

    bench::GpuBench harness_;
    bench::GpuOperands operands_;
    Problem problem_;
    Geometry geometry_;
    hopper::Kernel shipped_;
    cuda::Device& device_;
    int warps_ = 0;
    measure::Buffer report_;
    cuda::ReadyLaunch stamped_;
};

}  // namespace
}  // namespace tilewright::benchmark

int main(int argc, char** argv) {
    using namespace tilewright;
    bench::BenchShape shape{.m = 4096, .n = 7168, .k = 2048};
    std::string output, tile = "128x128x128 stages=5";
    CLI::App app("Shows what one block of a kernel does, clock by clock, as lines of JSON. Needs a GPU.");
    app.add_option("OUTPUT", output, "File that is written; default: standard output");
    app.add_option("--groups", shape.groups, "Groups of rows; default: one dense product");
    app.add_option("--max-m", shape.max_m, "Masked groups with room for so many rows each");
    app.add_option("--m", shape.m, "Rows, or their mean per group")->capture_default_str();
    app.add_option("--n", shape.n, "Columns of D")->capture_default_str();
    app.add_option("--k", shape.k, "Contraction size")->capture_default_str();
    app.add_option("--tile", tile, "The tile, as explain spells it")->capture_default_str();
    app.footer(
        "Example:\n  kernel_timeline --groups 4 --m 34 --max-m 64 --n 928 --k 928 --tile '64x64x128 stages=8 "
        "warpgroups=1'");
    CLI11_PARSE(app, argc, argv);
    if (shape.max_m > 0) {
        shape.grouping = Grouping::m_grouped_masked;
    } else if (shape.groups > 1) {
        shape.grouping = Grouping::m_grouped_offsets;
    }
    try {
        const std::optional<planner::PlannedTile> parsed = planner::parse_tile(tile);
        if (!parsed) throw Error("--tile: got " + tile + "; expected a tile such as '128x128x128 stages=5'");
        const std::string lines = benchmark::Timeline(shape, *parsed).lines();
        std::FILE* const to = output.empty() ? stdout : std::fopen(output.c_str(), "w");
        if (to == nullptr) throw Error(output + ": cannot be written");
        const bool written = std::fputs(lines.c_str(), to) >= 0;
        if ((to == stdout ? std::fflush(to) : std::fclose(to)) != 0 || !written) {
            throw Error("the lines could not be written; is the disk full?");
        }
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "kernel_timeline: {}\n", error.what());
        return 1;
    }
}
