// Times calls that need a general kernel, where that of their tile no longer ships. The old pack's kernel of the usual
// tile and this build's kernel of the tile that replaces it (plan/choose.h) take turns in one process:
//
//   compare_general_kernels PACK [--calls N] [--rounds N]
//
// PACK is a kernels.pack of a build in which every tile had a general kernel (benchmarks/old_pack.h). The calls are
// those of check/general_calls.h, of other seeds than the kernels were chosen for. Both results must have the same
// bits. Exit codes:
// - 1: other bits, or more loss than plan/shipped_kernels.h allows in the mean or in 99 of 100 calls;
// - 2: a wrong call, or no GPU.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/pack_calls.h"
#include "check/general_calls.h"
#include "cuda/runtime.h"
#include "plan/choose.h"
#include "plan/planned_tile.h"
#include "plan/shipped_kernels.h"
#include "plan/variant.h"
#include "problem/geometry.h"
#include "problem/workspace_plan.h"

#include "old_pack.h"

namespace tilewright::benchmark {
namespace {

struct Comparison {
    std::vector<double> lost{};  // by calls with another tile
    int kept = 0;                // calls whose tile still has its general kernel
    int other_bits = 0;
};

class Race {
public:
    Race(OldPack& before, int rounds) : before_(before), rounds_(rounds), harness_(measure::Flush::clean) {}

    void run(const bench::PackProblem& asked, std::string_view need, Comparison& result) {
        const Problem shapes = bench::shapes_of(asked);
        const Geometry shaped = tilewright::geometry(shapes);
        if (workspace_plan(shaped).bytes > 0) return;  // expanded weights: all their kernels ship
        const planner::TileChoice tiles = planner::chosen_tiles(shapes, gpu_call(shaped), harness_.description());
        if (planner::variant(shaped, tiles.usual).output != hopper::Output::any) return;  // some of f32, and with C
        if (tiles.usual == tiles.general) {
            ++result.kept;
            return;
        }
        bench::GpuOperands operands = bench::gpu_operands(asked.shape, asked.settings);
        Problem problem = operands.on_device();
        problem.alpha = asked.alpha;
        const Geometry geometry = tilewright::geometry(problem);
        const std::vector<measure::Contestant> both{contestant("before", before_.runtime(), geometry, tiles.usual),
                                                    contestant("now", cuda::runtime(), geometry, tiles.general)};
        if (!agree(harness_, operands, both)) ++result.other_bits;
        const std::vector<measure::Measurement> measured = harness_.stopwatch().race(both, rounds_);
        result.lost.push_back(measured[1].seconds / measured[0].seconds - 1);
        fmt::print("{:+7.2f} %  {:8.2f} us  {}, {} {}: {} -> {}\n", result.lost.back() * 100, measured[0].seconds * 1e6,
                   asked.kind, need, bench::shape_text(asked.shape), planner::name(planner::planned_tile(tiles.usual)),
                   planner::name(planner::planned_tile(tiles.general)));
        std::fflush(stdout);
    }

private:
    OldPack& before_;
    int rounds_;
    bench::GpuBench harness_;
};

int compare(const std::string& path, std::size_t calls, int rounds) {
    OldPack old(path);
    Race race(old, rounds);
    Comparison result;
    for (std::uint64_t seed = check::test_seed; result.lost.size() < calls && seed < check::test_seed + 100; ++seed) {
        for (const check::GeneralCall& call : check::general_calls(1, seed)) {
            const std::optional<bench::PackProblem> problem = bench::pack_problem(call);
            if (problem && result.lost.size() < calls) race.run(*problem, check::name(call.need), result);
        }
    }
    if (result.lost.empty()) throw std::runtime_error("no call takes another tile");
    const check::Losses of_changed = check::losses(result.lost);
    std::vector<double> all = result.lost;
    all.resize(all.size() + static_cast<std::size_t>(result.kept), 0.0);
    const check::Losses of_all = check::losses(all);
    fmt::print(
        "{} calls with another tile: {:+.2f} % in the mean, {:+.2f} % at worst\n"
        "{} with their own; both: {:+.2f} % in the mean, at most {:+.2f} % in 99 of 100; {} with other bits\n",
        result.lost.size(), of_changed.mean * 100, of_changed.worst * 100, result.kept, of_all.mean * 100,
        of_all.of_99_in_100 * 100, result.other_bits);
    const bool loses = of_all.mean > planner::most_mean_loss || of_all.of_99_in_100 > planner::most_loss;
    return result.other_bits > 0 || loses ? 1 : 0;
}

}  // namespace
}  // namespace tilewright::benchmark

int main(int argc, char** argv) {
    CLI::App app(
        "Times calls whose general kernel no longer ships.\nExample: compare_general_kernels old.pack --calls 60");
    std::string path;
    std::size_t calls = 60;
    int rounds = 9;
    app.add_option("PACK", path, "kernels.pack of a build in which every tile has a general kernel")->required();
    app.add_option("--calls", calls, "calls with another tile")->capture_default_str();
    app.add_option("--rounds", rounds, "rounds of each race")->capture_default_str()->check(CLI::PositiveNumber);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        return tilewright::benchmark::compare(path, calls, rounds);
    } catch (const std::exception& error) {
        fmt::print(stderr, "compare_general_kernels: {}\n", error.what());
        return 2;
    }
}
