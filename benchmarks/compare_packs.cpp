// Times the kernels of an older pack against those of this build, in one process and in turns:
//
//   compare_packs PACK [--rounds N] [--each]
//
// PACK is a kernels.pack of another build (benchmarks/old_pack.h). Every kernel that ships for operands of layout nt
// runs a few typical problems, with L2 flushed before each call. Both packs' results must have the same bits. --each
// prints every ratio first. Exit codes:
// - 1: a kernel is more than 2 % slower than the old one, a kind of problem is more than 0.5 % slower in the mean, or a
//   kernel was not compared;
// - 2: a wrong call, or no GPU.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/pack_calls.h"
#include "cuda/runtime.h"
#include "launch/kernels.h"
#include "plan/choose.h"
#include "plan/shipped_kernels.h"
#include "problem/geometry.h"

#include "old_pack.h"

namespace tilewright::benchmark {
namespace {

constexpr double kernel_limit = 0.02, kind_limit = 0.005;
constexpr std::size_t problems_each = 3;  // for a kernel, at most

struct Comparison {
    std::vector<bench::KernelRatio> ratios{};
    std::set<std::string> compared{};
    int other_bits = 0;
};

class Race {
public:
    Race(OldPack& before, int rounds) : before_(before), rounds_(rounds), harness_(measure::Flush::clean) {}

    const DeviceDescription& description() const { return harness_.description(); }

    void run(const bench::PackProblem& problem, Comparison& result) {
        bench::GpuOperands operands = bench::gpu_operands(problem.shape, problem.settings);
        Problem on_device = operands.on_device();
        on_device.alpha = problem.alpha;
        for (const bench::KernelCall& call : problem.calls) {
            const std::string expression = launch::kernel_expression(call.kernel);
            if (!before_.kernels().find(expression)) continue;
            const hopper::Kernel tile = planner::runnable_tile(call.tile, on_device, description());
            const Geometry geometry = tilewright::geometry(on_device);
            const std::vector<measure::Contestant> both{contestant("before", before_.runtime(), geometry, tile),
                                                        contestant("now", cuda::runtime(), geometry, tile)};
            const std::string kernel = launch::describe(call.kernel);
            if (!agree(harness_, operands, both)) {
                ++result.other_bits;
                fmt::print("OTHER BITS: {} at {}\n", kernel, bench::shape_text(problem.shape));
            }
            double ratio = ratio_of(both, rounds_);
            // A single slow time may be noise: more rounds decide.
            if (ratio > 1 + kernel_limit / 2) ratio = ratio_of(both, 5 * rounds_);
            result.ratios.push_back({.kernel = kernel, .kind = problem.kind, .ratio = ratio});
            result.compared.insert(expression);
        }
    }

private:
    double ratio_of(const std::vector<measure::Contestant>& both, int rounds) {
        const std::vector<measure::Measurement> measured = harness_.stopwatch().race(both, rounds);
        return measured[1].seconds / measured[0].seconds;
    }

    OldPack& before_;
    int rounds_;
    bench::GpuBench harness_;
};

void print_each(const Comparison& result) {
    for (const bench::KernelRatio& of : result.ratios) fmt::print("{:.4f}  {:<16}  {}\n", of.ratio, of.kind, of.kernel);
}

int compare(const std::string& path, int rounds, bool each) {
    OldPack old(path);
    if (cuda::embedded_pack().kernels().empty()) throw std::runtime_error("this build has no kernel pack");
    const std::vector<hopper::Kernel> tiles = planner::shipped_kernels();
    const auto is_known = [&](const hopper::Kernel& tile) {
        return old.kernels().find(launch::kernel_expression(tile)).has_value();
    };
    if (std::ranges::none_of(tiles, is_known)) throw std::runtime_error(path + ": holds no kernel of this build");
    const auto expected = static_cast<std::size_t>(std::ranges::count_if(tiles, bench::is_called));
    Race race(old, rounds);
    Comparison result;
    for (const bench::PackProblem& problem : bench::pack_problems(race.description(), problems_each)) {
        race.run(problem, result);
        fmt::print(stderr, "\r{} of {} kernels", result.compared.size(), expected);
    }
    const bench::PackVerdict verdict = bench::judge_ratios(result.ratios, kernel_limit, kind_limit);
    fmt::print(stderr, "\n");
    if (each) print_each(result);
    fmt::print("{}{} of {} kernels compared, {} problems with other bits; time: this build's over the pack's\n",
               verdict.text, result.compared.size(), expected, result.other_bits);
    const bool complete = result.compared.size() == expected;
    return verdict.slower || result.other_bits > 0 || !complete ? 1 : 0;
}

}  // namespace
}  // namespace tilewright::benchmark

int main(int argc, char** argv) {
    CLI::App app(
        "Times the kernels of an older pack against this build's.\nExample: compare_packs old.pack --rounds 9");
    std::string path;
    int rounds = 5;
    bool each = false;
    app.add_option("PACK", path, "kernels.pack of another build, whose kernels take today's arguments")->required();
    app.add_option("--rounds", rounds, "rounds of each race")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_flag("--each", each, "print the ratio of every kernel and problem");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        return tilewright::benchmark::compare(path, rounds, each);
    } catch (const std::exception& error) {
        fmt::print(stderr, "compare_packs: {}\n", error.what());
        return 2;
    }
}
