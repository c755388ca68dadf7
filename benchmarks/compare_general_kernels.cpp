// Times calls that need a general kernel, where that of their tile no longer ships. The old pack's kernel of the usual
// tile and this build's kernel of the tile that replaces it (plan/choose.h) take turns in one process:
//
//   compare_general_kernels PACK [--calls N] [--rounds N]
//
// PACK is a kernels.pack of a build in which every tile had a general kernel. Both results must have the same bits.
// Random sizes as users have them; alpha, or D of f16 or f32. Exit codes: 1: other bits, more than 3 % slower in the
// mean or 35 % at worst; 2: a wrong call, or no GPU.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/gpu_bench.h"
#include "bench/gpu_operands.h"
#include "cuda/kernel_pack.h"
#include "cuda/runtime.h"
#include "launch/tile_code.h"
#include "plan/pack.h"
#include "plan/planned_tile.h"
#include "plan/runnable.h"
#include "plan/variant.h"
#include "problem/geometry.h"
#include "problem/workspace_plan.h"

namespace tilewright::benchmark {
namespace {

constexpr double mean_limit = 0.03, worst_limit = 0.35;

struct Kind {
    const char* recipe;
    Grouping grouping;
    Accumulation accumulation = Accumulation::promoted;
};
constexpr std::array kinds{Kind{"1x128:128x128", Grouping::dense},
                           Kind{"1x128:128x128", Grouping::m_grouped_masked},
                           Kind{"1x128:128x128", Grouping::m_grouped_aligned_offsets},
                           Kind{"row:row", Grouping::dense},
                           Kind{"row:row", Grouping::m_grouped_masked},
                           Kind{"row:row", Grouping::dense, Accumulation::unpromoted},
                           Kind{"row:row", Grouping::m_grouped_masked, Accumulation::unpromoted},
                           Kind{"row:mxfp4", Grouping::dense},
                           Kind{"1x128:mxfp4", Grouping::dense},
                           Kind{"1x128:mxfp4", Grouping::m_grouped_masked}};

struct Need {
    const char* name;
    Format output;
    float alpha;
};
constexpr std::array needs{Need{"alpha", Format::bf16, 1.5F}, Need{"f16", Format::f16, 1.0F},
                           Need{"f32", Format::f32, 1.0F}};

std::string whole_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file || bytes.empty()) throw std::runtime_error(path + ": cannot be read");
    return bytes;
}

struct Losses {
    std::vector<double> each;
    int kept = 0;  // calls whose tile still has its general kernel
    int other_bits = 0;
};

class Race {
public:
    Race(cuda::Runtime& before, int rounds)
        : before_(before), rounds_(rounds), harness_(measure::Flush::clean), sum_(sizeof(std::uint64_t)) {}

    void run(const bench::BenchShape& shape, const Kind& kind, const Need& need, Losses& result) {
        const bench::Settings settings{.recipe = parse_recipe(kind.recipe).value(),
                                       .output = need.output,
                                       .backend = Backend::hopper,
                                       .accumulation = kind.accumulation};
        bench::GpuOperands operands = bench::gpu_operands(shape, settings);
        Problem problem = operands.on_device();
        problem.alpha = need.alpha;
        const Geometry geometry = tilewright::geometry(problem);
        if (workspace_plan(geometry).bytes > 0) return;  // expanded weights: all their kernels ship
        const planner::TileChoice tiles = planner::chosen_tiles(problem, gpu_call(geometry), harness_.description());
        if (planner::tile_of(tiles, geometry) == tiles.usual) {
            ++result.kept;
            return;
        }
        const auto of = [&](cuda::Runtime& runtime, const hopper::Kernel& tile) {
            return [&runtime, &geometry, tile](cuda::StreamHandle stream) {
                runtime.run(geometry, tile, {.stream = stream});
            };
        };
        const std::vector<measure::Contestant> both{{.name = "before", .call = of(before_, tiles.usual)},
                                                    {.name = "now", .call = of(cuda::runtime(), tiles.general)}};
        if (hash(operands, both[0]) != hash(operands, both[1])) ++result.other_bits;
        const std::vector<measure::Measurement> measured = harness_.stopwatch().race(both, rounds_);
        result.each.push_back(measured[1].seconds / measured[0].seconds - 1);
        fmt::print("{:+7.2f} %  {:8.2f} us  {:<14} {:<5} {}: {} -> {}\n", result.each.back() * 100,
                   measured[0].seconds * 1e6, kind.recipe, need.name, bench::shape_text(shape),
                   planner::name(planner::planned_tile(tiles.usual)),
                   planner::name(planner::planned_tile(tiles.general)));
        std::fflush(stdout);
    }

private:
    std::uint64_t hash(bench::GpuOperands& operands, const measure::Contestant& contestant) {
        measure::Device& device = harness_.device();
        operands.poison_output();
        sum_.fill(0);
        device.synchronize();
        contestant.call(device.stream());
        device.enqueue_hash(operands.output(), sum_, device.stream());
        device.synchronize();
        std::uint64_t sum = 0;
        sum_.download(&sum, sizeof(sum));
        return sum;
    }

    cuda::Runtime& before_;
    int rounds_;
    bench::GpuBench harness_;
    measure::Buffer sum_;
};

int compare(const std::string& path, std::size_t calls, int rounds) {
    const std::string bytes = whole_file(path);
    const cuda::KernelPack old(bytes);
    cuda::Runtime before(cuda::driver(), old, cuda::DiskCache(""), {});
    Race race(before, rounds);
    Losses result;
    for (std::uint64_t seed = 1; result.each.size() < calls && seed < 100; ++seed) {
        for (std::size_t i = 0; i < kinds.size() && result.each.size() < calls; ++i) {
            const Kind& kind = kinds[i];
            for (const bench::BenchShape& shape : bench::random_shapes(1, seed, {kind.grouping})) {
                race.run(shape, kind, needs[(seed + i) % needs.size()], result);
            }
        }
    }
    if (result.each.empty()) throw std::runtime_error("no call takes another tile");
    double sum = 0;
    for (const double loss : result.each) sum += loss;
    const auto all = static_cast<double>(result.each.size());
    const double worst = *std::ranges::max_element(result.each);
    fmt::print(
        "{} calls with another tile: {:+.2f} % in the mean, {:+.2f} % at worst; {} with their own; {:+.2f} % in the "
        "mean "
        "of both; {} with other bits\n",
        result.each.size(), sum / all * 100, worst * 100, result.kept, sum / (all + result.kept) * 100,
        result.other_bits);
    return result.other_bits > 0 || sum / (all + result.kept) > mean_limit || worst > worst_limit ? 1 : 0;
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
