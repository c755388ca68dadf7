// Measures the GPU that is present and writes a device file, which `planned_device`, `--device` and read_device take:
//
//   measure_device --output FILE [--name NAME] [--compare h100] [--repeats N] [--dry-run]
//
// - Probes of memory and L2 are small kernels (src/measure/probes.h).
// - The loops of tiles, their stores and the clock under load are those of the kernels that ship.
//
// It prints each time that was measured, then each figure with the shipped one. src/bench/device_figures.h has the
// arithmetic. It ends after a minute. Exit codes: 1: no GPU, or times of no use; 2: a wrong call.
#include <fmt/format.h>
#include <tilewright/error.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/device_figures.h"
#include "bench/gpu_bench.h"
#include "bench/record.h"
#include "cuda/device.h"
#include "cuda/runtime.h"
#include "hopper/description/design.h"
#include "measure/probes.h"
#include "output/file.h"
#include "output/table.h"
#include "plan/shipped_tiles.h"
#include "plan/tsv.h"
#include "plan/workload.h"
#include "problem/geometry.h"

namespace tilewright::benchmark {
namespace {

using bench::ClockedTime;
using bench::TileTimes;
using bench::Transfer;
using measure::ProbeStream;

constexpr double most_seconds = 60;
constexpr std::int64_t mebibyte = 1 << 20;
constexpr std::array line_sizes{16 * mebibyte, 32 * mebibyte, 64 * mebibyte, 128 * mebibyte, 240 * mebibyte};
constexpr int shallow_depth = 2;
constexpr std::int64_t l2_chunks = 8;  // of each SM: 17 MB of all
constexpr std::int64_t l2_passes = 256;
constexpr std::int64_t short_k = 16, long_k = 64;  // k-blocks of a loop's two products
constexpr std::int64_t store_k = 2, few_waves = 2, many_waves = 4;
constexpr std::int64_t power_k = 128, power_waves = 8;  // 0.6 ms

/// A shape of tile, and what multiplies with it. The ring's depth is that of the kernel that ships.
struct Loop {
    int m;
    int n;
    bool promoted;  // 1x128 : 128x128 scales; otherwise scales of rows without promotion

    const char* recipe() const { return promoted ? "1x128:128x128" : "row:row"; }
    std::string text() const { return fmt::format("{}x{}, {}", m, n, recipe()); }
};
constexpr std::array loops{Loop{128, 256, false}, Loop{256, 128, false}, Loop{128, 128, false},
                           Loop{128, 64, false},  Loop{128, 128, true},  Loop{128, 192, true},
                           Loop{128, 256, true},  Loop{256, 128, true},  Loop{192, 128, true}};

struct Arguments {
    std::string output;
    std::string name;
    std::string compare;
    int repeats = 7;
    bool dry_run = false;
};

/// The two factors of `number` that are nearest to each other, the smaller one first.
std::pair<int, int> factors(int number) {
    int small = 1;
    for (int i = 1; i * i <= number; ++i) {
        if (number % i == 0) small = i;
    }
    return {small, number / small};
}

class Measuring {
public:
    explicit Measuring(int repeats) : repeats_(repeats), harness_(measure::Flush::clean), probes_(harness_.device()) {
        timings_.gpu = cuda::reported_gpu(cuda::driver(), 0);
        timings_.pairs_at_once = probes_.pairs_at_once();
    }

    const bench::DeviceTimings& run() {
        warm_up();
        time_memory();
        time_l2();
        timings_.empty_kernel = timed([&](cuda::StreamHandle on) { probes_.enqueue_nothing(on); }).seconds;
        log("an empty kernel", 0, {timings_.empty_kernel, 0});
        probes_.check();
        for (const Loop& loop : loops) {
            time_pair(loop, {1, short_k}, {1, long_k}, timings_.loops);
            if (loop.promoted) time_pair(loop, {few_waves, store_k}, {many_waves, store_k}, timings_.stores);
        }
        time_power();
        return timings_;
    }

    const DeviceDescription& recognised() const { return harness_.description(); }
    std::string times_text() const { return times_.text(); }

private:
    struct Size {
        std::int64_t waves;
        std::int64_t k_blocks;
    };

    /// Until the clocks are those of a GPU at work.
    void warm_up() {
        const measure::Buffer to(static_cast<std::size_t>(line_sizes.back()));
        const auto begin = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(500)) {
            for (int i = 0; i < 20; ++i) harness_.device().enqueue_fill(to, 1, harness_.device().stream());
            harness_.device().synchronize();
        }
    }

    ClockedTime timed(const measure::Call& call) {
        if (std::chrono::steady_clock::now() - begin_ > std::chrono::duration<double>(most_seconds)) {
            throw Error(fmt::format("measuring takes more than {:.0f} s; run again on an idle GPU", most_seconds));
        }
        const measure::Contestant contestant{.name = "", .call = call};
        const measure::Measurement measured = harness_.stopwatch().race({&contestant, 1}, repeats_).front();
        return {.seconds = measured.seconds, .hertz = measured.hertz};
    }

    void log(const std::string& what, double bytes, const ClockedTime& time) {
        times_.add({what, bytes > 0 ? output::format_bytes(bytes) : "", fmt::format("{:.3f}", time.seconds * 1e6),
                    time.hertz > 0 ? fmt::format("{:.3f}", time.hertz / 1e9) : ""});
    }

    Transfer transfer(const std::string& what, double bytes, const measure::Call& call) {
        const ClockedTime time = timed(call);
        log(what, bytes, time);
        return {.bytes = bytes, .seconds = time.seconds, .hertz = time.hertz};
    }

    Transfer stream(const std::string& what, const measure::Buffer& from, const ProbeStream& shape) {
        return transfer(what, shape.bytes(), [&](cuda::StreamHandle on) { probes_.enqueue_stream(from, shape, on); });
    }

    void time_memory() {
        const int sms = timings_.gpu.sms;
        const auto largest = static_cast<std::size_t>(line_sizes.back());
        const measure::Buffer from(largest);
        from.fill(1);
        for (const std::int64_t bytes : line_sizes) {
            const std::int64_t chunks = bytes / ProbeStream::chunk_bytes;
            timings_.reads.push_back(stream("reads", from, {.blocks = sms, .chunks = chunks, .all_chunks = chunks}));
        }
        for (const std::int64_t bytes : line_sizes) {
            const measure::Buffer to(static_cast<std::size_t>(bytes));
            timings_.writes.push_back(transfer("writes", static_cast<double>(bytes), [&](cuda::StreamHandle on) {
                harness_.device().enqueue_fill(to, 1, on);
            }));
        }
        const measure::Buffer to(largest);
        timings_.copy = transfer("copy", static_cast<double>(largest),
                                 [&](cuda::StreamHandle on) { probes_.enqueue_copy(from, to, on); });
        const std::int64_t chunks = line_sizes.back() / ProbeStream::chunk_bytes;
        timings_.shallow = stream("reads, 32 KiB in flight", from,
                                  {.blocks = sms, .depth = shallow_depth, .chunks = chunks, .all_chunks = chunks});
        timings_.shallow_bytes = static_cast<double>(shallow_depth * ProbeStream::chunk_bytes);
    }

    void time_l2() {
        const int sms = timings_.gpu.sms;
        const std::int64_t chunks = l2_chunks * sms;
        const measure::Buffer from(static_cast<std::size_t>(chunks * ProbeStream::chunk_bytes));
        from.fill(1);
        timings_.l2_of_all =
            stream("L2 to all SMs", from, {.blocks = sms, .chunks = chunks, .all_chunks = chunks * l2_passes});
        timings_.l2_of_one =
            stream("L2 to one SM", from, {.blocks = 1, .chunks = l2_chunks, .all_chunks = l2_chunks * l2_passes});
    }

    /// A product with `waves` tiles for each SM.
    ProblemSizes sizes_of(const Loop& loop, const Size& size) const {
        const auto [small, large] = factors(timings_.gpu.sms);
        return {.recipe = parse_recipe(loop.recipe()).value(),
                .m = loop.m * large * size.waves,
                .n = std::int64_t{loop.n} * small,
                .k = 128 * size.k_blocks,
                .accumulation = loop.promoted ? Accumulation::promoted : Accumulation::unpromoted};
    }

    /// The shipped tile with one block per SM; nothing if there is none.
    static std::optional<hopper::Kernel> shipped(const Loop& loop, const Problem& problem) {
        for (const hopper::Kernel& tile :
             planner::shipped_tiles(planner::shapeless_kernel(planner::workload(problem)))) {
            const bool same = tile.shape.m == loop.m && tile.shape.n == loop.n && !tile.swap_ab;
            if (same && tile.cluster.size() == 1 && hopper::Design(tile).blocks_per_sm == 1) return tile;
        }
        return std::nullopt;
    }

    std::optional<TileTimes> time_product(const Loop& loop, const Size& size) {
        const ProblemSizes sizes = sizes_of(loop, size);
        const bench::BenchShape shape{.m = sizes.m, .n = sizes.n, .k = sizes.k};
        bench::GpuOperands operands = bench::gpu_operands(
            shape, {.recipe = sizes.recipe, .backend = Backend::hopper, .accumulation = sizes.accumulation});
        const Problem problem = operands.on_device();
        const std::optional<hopper::Kernel> tile = shipped(loop, problem);
        if (!tile) return std::nullopt;
        const Geometry geometry = tilewright::geometry(problem);
        const ClockedTime time = timed([&](cuda::StreamHandle on) {
            cuda::runtime().run(geometry, *tile, {.stream = on, .workspace = operands.workspace()});
        });
        harness_.device().synchronize();
        cuda::runtime().device(0).check_report();
        log(fmt::format("{}: {} waves, {} k-blocks", loop.text(), size.waves, size.k_blocks), 0, time);
        return TileTimes{.tile = *tile, .waves = size.waves, .k_blocks = size.k_blocks, .time = time};
    }

    void time_pair(const Loop& loop, const Size& first, const Size& second, std::vector<TileTimes>& pairs) {
        const std::optional<TileTimes> one = time_product(loop, first);
        if (!one) return log(loop.text() + ": does not ship", 0, {});
        const std::optional<TileTimes> other = time_product(loop, second);
        if (other) pairs.insert(pairs.end(), {*one, *other});
    }

    void time_power() {
        const Size size{power_waves, power_k};
        for (const Loop& loop : loops) {
            const std::optional<TileTimes> times = loop.promoted ? std::nullopt : time_product(loop, size);
            if (!times) continue;
            timings_.power = {.sizes = sizes_of(loop, size), .tile = times->tile, .hertz = times->time.hertz};
            return;
        }
    }

    int repeats_;
    bench::GpuBench harness_;
    measure::Probes probes_;
    bench::DeviceTimings timings_;
    output::Table times_{{{.title = "time"},
                          {.title = "bytes", .right = true},
                          {.title = "us", .right = true},
                          {.title = "GHz", .right = true}}};
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::string plan_text() {
    output::Table table({{.title = "probe"}, {.title = "what runs"}, {.title = "figures"}});
    table.add({"reads", "16 to 240 MiB by TMA", "memory_bytes_per_second, start_seconds"});
    table.add({"writes", "16 to 240 MiB", "written_byte"});
    table.add({"copy", "240 MiB", "copy"});
    table.add({"shallow reads", "240 MiB, 32 KiB in flight on each SM", "memory_latency"});
    table.add({"L2", "128 KiB of each SM, 256 times; one SM alone", "l2_bytes_per_second, l2_bytes_per_clock"});
    table.add({"empty kernel", "a block per SM", "launch_seconds, start_seconds"});
    for (const Loop& loop : loops) {
        table.add({"tile " + loop.text(), fmt::format("k = {} and {}, one tile per SM", 128 * short_k, 128 * long_k),
                   loop.promoted ? "loop, store" : "loop, fp8_products_per_clock"});
    }
    table.add({"power", fmt::format("k = {}, {} tiles per SM", 128 * power_k, power_waves), "power_hertz"});
    return table.text();
}

/// Before the GPU's time is spent.
void require_writable(const std::string& path) {
    const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
    if (!std::filesystem::is_directory(path) && ::access(parent.c_str(), W_OK) == 0) return;
    throw Error(fmt::format("--output: got '{}'; expected a file in a folder that can be written", path));
}

/// As device files take it.
std::string mistake_in_name(const std::string& name) {
    const bool sound = !name.empty() && name.size() <= 60 && planner::shown(name) == name;
    return sound ? "" : "got '" + planner::shown(name) + "'; expected 1 to 60 printable ASCII characters";
}

std::string mistake_in_device(const std::string& name) {
    const bool known = std::ranges::count(known_devices(), name, &DeviceDescription::name) > 0;
    return known ? "" : "got '" + planner::shown(name) + "'; expected a name that `tilewright explain --help` lists";
}

int measure_device(const Arguments& arguments) {
    if (arguments.dry_run) {
        fmt::print("{}\nNo GPU was used. All of it takes about 15 seconds, and never more than {:.0f}.\n", plan_text(),
                   most_seconds);
        return 0;
    }
    require_writable(arguments.output);
    Measuring measuring(arguments.repeats);
    const DeviceDescription shipped =
        arguments.compare.empty() ? measuring.recognised() : device_named(arguments.compare);
    const bench::DeviceTimings& timings = measuring.run();
    fmt::print("{}, {} SMs\n\n{}\n", timings.gpu.name, timings.gpu.sms, measuring.times_text());
    std::fflush(stdout);
    const std::vector<bench::Figure> figures = bench::device_figures(timings, shipped);
    fmt::print("{}\n", bench::figures_text(figures, shipped.name));
    const std::string name = arguments.name.empty() ? shipped.name + "-measured" : arguments.name;
    const std::string file =
        bench::device_file(figures, name, timings.gpu,
                           fmt::format("{}, measured on {} by measure_device", timings.gpu.name, bench::today()));
    output::write_text(arguments.output, file);
    fmt::print("{}: written; use it with --device {} or planned_device=\"{}\"\n", arguments.output, arguments.output,
               arguments.output);
    return 0;
}

}  // namespace
}  // namespace tilewright::benchmark

int main(int argc, char** argv) {
    CLI::App app(
        "Measures the GPU that is present, in less than a minute, and writes a device file.\n"
        "Example: measure_device --output ./my_h100.tsv --name my_h100");
    tilewright::benchmark::Arguments arguments;
    CLI::Option* const output =
        app.add_option("--output", arguments.output, "the device file; it is replaced, e.g. ./my_h100.tsv");
    app.add_option("--name", arguments.name,
                   "name of the GPU in the file (default: the shipped name and \"-measured\")")
        ->check(
            CLI::Validator([](std::string& text) { return tilewright::benchmark::mistake_in_name(text); }, "", "name"));
    app.add_option("--compare", arguments.compare, "shipped device to compare with (default: the one that this is)")
        ->check(CLI::Validator([](std::string& text) { return tilewright::benchmark::mistake_in_device(text); }, "",
                               "device"));
    app.add_option("--repeats", arguments.repeats, "times that each probe runs; the median counts")
        ->capture_default_str()
        ->check(CLI::Range(1, 100));
    CLI::Option* const dry_run =
        app.add_flag("--dry-run", arguments.dry_run, "print what would be measured, without a GPU");
    try {
        app.parse(argc, argv);
        if (output->count() == 0 && dry_run->count() == 0) throw CLI::RequiredError("--output");
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        return tilewright::benchmark::measure_device(arguments);
    } catch (const std::exception& error) {
        fmt::print(stderr, "measure_device: {}\n", error.what());
        return 1;
    }
}
