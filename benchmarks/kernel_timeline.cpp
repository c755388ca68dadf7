// Shows what one block of a kernel does, clock by clock: a shipped kernel compiled with time stamps (Debug::stamps).
//
//   kernel_timeline [OUTPUT]         lines of JSON, to standard output without a name
//
// The tile is 128x128 of fp8 with 1x128 : 128x128 scales, m = 4096, n = 7168, k = 2048.
// - The first line describes the run, with the times of the kernel that ships and of the one with stamps.
// - Then there is a line for one warp of each role, of a few blocks: its events and the SM's clock at each, from the
//   first stamp of the block on.
//
// The stamped result must have the bits of the shipped one. benchmarks/plot_timeline.py draws it.
#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/commit.h"
#include "bench/gpu_bench.h"
#include "bench/record.h"
#include "cuda/runtime.h"
#include "hopper/arguments.h"
#include "hopper/description/derive.h"
#include "launch/launch.h"
#include "launch/tile_code.h"
#include "plan/runnable.h"
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
constexpr std::array stamping{Stamping{0, "load"}, Stamping{4, "multiply 0"}, Stamping{8, "multiply 1"}};

class Timeline {
public:
    Timeline()
        : harness_(measure::Flush::clean),
          operands_(bench::gpu_operands({.m = 4096, .n = 7168, .k = 2048},
                                        {.recipe = parse_recipe("1x128:128x128").value(), .backend = Backend::hopper})),
          problem_(operands_.on_device()),
          geometry_(tilewright::geometry(problem_)),
          shipped_(planner::variant(
              geometry_, planner::runnable_tile({.m = 128, .n = 128, .stages = 5}, problem_, harness_.description()))),
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
        warps_ = design_of(tile).threads / hopper::warp_threads;
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
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fmt::print(stderr, "usage: kernel_timeline [OUTPUT]\n");
        return 2;
    }
    try {
        const std::string lines = tilewright::benchmark::Timeline().lines();
        std::FILE* const to = argc == 2 ? std::fopen(argv[1], "w") : stdout;
        if (to == nullptr) throw tilewright::Error(std::string(argv[1]) + ": cannot be written");
        const bool written = std::fputs(lines.c_str(), to) >= 0;
        if ((argc == 2 ? std::fclose(to) : std::fflush(to)) != 0 || !written) {
            throw tilewright::Error("the lines could not be written; is the disk full?");
        }
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "kernel_timeline: {}\n", error.what());
        return 1;
    }
}
