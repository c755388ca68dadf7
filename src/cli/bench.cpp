// `tilewright bench`: the time of a call, and the least time that the machine could take for it.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>

#include "bench/cpu_bench.h"
#include "bench/gpu_bench.h"
#include "bench/peers_table.h"
#include "bench/record.h"
#include "bench/report.h"
#include "cli/backends.h"
#include "cli/bench_arguments.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/words.h"
#include "measure/blas_lt.h"
#include "output/file.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

std::string backend_device(Backend& backend) {
    for (const BackendStatus& status : backend_statuses(cuda::probe())) {
        if (backend == Backend::automatic && status.available) backend = status.backend;
        if (status.backend != backend) continue;
        if (status.available) return status.device;
        throw std::runtime_error(
            fmt::format("backend {} is unavailable: {}; {}", name(backend), status.why, status.advice));
    }
    throw std::runtime_error("no backend is available");
}

void print_cpu_head(const bench::Run& run) {
    fmt::print("{}; at most {} GFLOP/s and {} GB/s ({})\n", run.device,
               output::format_number(run.peaks.flops_per_second * 1e-9),
               output::format_number(run.peaks.bytes_per_second * 1e-9), run.peaks.source);
    fmt::print("floor: the larger of flops and bytes over these; ratio: time / floor, 1 is the best there is\n\n");
}

void print_gpu_head(const bench::Run& run, const std::vector<bench::BenchShape>& shapes) {
    fmt::print("{}; at most {:.0f} TFLOP/s and {:.2f} TB/s ({})\n", run.device, run.peaks.flops_per_second * 1e-12,
               run.peaks.bytes_per_second * 1e-12, run.peaks.source);
    fmt::print("{}, device time of one call, median of {}; ratio: time / floor\n", bench::recipe_text(run.settings),
               run.settings.repeats);
    if (run.settings.overlap) {
        fmt::print(
            "in turn: {} calls in a row, from the first kernel's start to the last one's end, over {}; overlap: the "
            "same with programmatic dependent launch; L2 is not flushed between them\n",
            measure::sequence_calls, measure::sequence_calls);
    }
    if (run.settings.peers) {
        const char* other = bench::baseline(run.settings.recipe, shapes.front().grouping);
        fmt::print(
            "cuBLASLt {}: live, per tensor; {}: benchmarks/peers; x {}: both times in units of cuBLASLt's in the same "
            "run\n",
            run.blas_version, other, other);
    }
    fmt::print("\n");
}

/// Times shapes and prints a line for each, or JSON records alone.
class Session {
public:
    using Bench = std::function<bench::Result(const bench::BenchShape&, const bench::Settings&)>;

    /// `records`: takes the JSON records of a result as soon as it is there.
    Session(std::vector<bench::BenchShape> shapes, Bench run_one, std::function<void(const std::string&)> records,
            bool tables)
        : shapes_(std::move(shapes)), run_one_(std::move(run_one)), records_(std::move(records)), tables_(tables) {}

    /// Every shape with every one of these runs, in one table.
    std::vector<bench::Result> run(const std::vector<bench::Run>& runs) {
        const output::Table table = bench::result_table(shapes_, runs.front());
        if (tables_) fmt::print("{}", table.header());
        Progress progress("timing", shapes_.size() * runs.size());
        std::vector<bench::Result> results;
        for (const bench::BenchShape& shape : shapes_) {
            for (const bench::Run& run : runs) {
                progress.advance(0, fmt::format("{} {}", name(shape.grouping), bench::shape_text(shape)));
                results.push_back(run_one_(shape, run.settings));
                progress.clear();
                show(table, results.back(), run);
                progress.advance(1);
            }
        }
        return results;
    }

    bool wrong() const { return wrong_; }
    const std::vector<bench::BenchShape>& shapes() const { return shapes_; }

private:
    void show(const output::Table& table, const bench::Result& result, const bench::Run& run) {
        if (tables_) fmt::print("{}", bench::result_lines(table, result, run));
        records_(bench::result_records(result, run));
        std::fflush(stdout);
        if (!result.note.empty()) fmt::print(stderr, "tilewright: bench: no peer: {}\n", result.note);
        if (result.failure.empty()) return;
        wrong_ = true;
        fmt::print(stderr, "tilewright: bench: {} {} {}{}: wrong result, not timed: {}\n", name(result.shape.grouping),
                   bench::shape_text(result.shape), name(run.settings.recipe),
                   result.tile ? " with " + name(*result.tile) : "", result.failure);
    }

    std::vector<bench::BenchShape> shapes_;
    Bench run_one_;
    std::function<void(const std::string&)> records_;
    bool tables_;
    bool wrong_ = false;
};

bool bench_on_gpu(const BenchArguments& arguments, const std::vector<bench::BenchShape>& shapes) {
    if (arguments.layout != "nt") throw UsageError("bench: the GPU takes layout nt; others run with --backend cpu");
    const std::vector<bench::Settings> all = all_settings(arguments, Backend::hopper);
    bench::GpuBench gpu(all.front().flush);
    const bool tables = arguments.json_path != "-";
    const auto records = [&](const std::string& lines) {
        if (!tables) fmt::print("{}", lines);
        if (tables && !arguments.json_path.empty()) output::append_text(arguments.json_path, lines);
    };
    Session session(
        shapes, [&](const auto& shape, const auto& settings) { return gpu.run(shape, settings); }, records, tables);
    for (const bench::Settings& settings : all) {
        const bench::Run run{.settings = settings,
                             .peaks = gpu.peaks(),
                             .device = gpu.device().name(),
                             .date = bench::today(),
                             .command = bench::command_line(),
                             .blas_version = settings.peers ? measure::blas_lt_version() : ""};
        if (tables) print_gpu_head(run, shapes);
        const std::vector<bench::Result> results = session.run({run});
        if (tables) fmt::print("\n{}", bench::summary(results, run));
    }
    return !session.wrong();
}

bool bench_on_cpu(const BenchArguments& arguments, const std::vector<bench::BenchShape>& shapes, Backend backend,
                  const std::string& device) {
    if (arguments.settings.overlap)
        throw UsageError("bench: --overlap times launches on a GPU; with the backend cpu, leave it out");
    std::vector<bench::Run> runs;
    for (const bench::Settings& settings : all_settings(arguments, backend)) {
        runs.push_back({.settings = settings,
                        .peaks = bench::cpu_peaks(),
                        .device = device,
                        .date = bench::today(),
                        .command = bench::command_line()});
    }
    const bool tables = arguments.json_path != "-";
    std::string text;
    const auto records = [&](const std::string& lines) {
        if (!tables) fmt::print("{}", lines);
        text += lines;
    };
    if (tables) print_cpu_head(runs.front());
    Session session(shapes, bench::run_on_cpu, records, tables);
    session.run(runs);
    if (tables && !arguments.json_path.empty()) output::write_text(arguments.json_path, text);
    return !session.wrong();
}

void bench_command(const BenchArguments& arguments) {
    Backend backend = parse_backend(arguments.backend).value();
    const std::vector<bench::BenchShape> shapes = chosen_shapes(arguments, "bench");
    const std::string device = backend_device(backend);
    const bool right =
        backend == Backend::hopper ? bench_on_gpu(arguments, shapes) : bench_on_cpu(arguments, shapes, backend, device);
    if (!right) throw Reported{};
}

void add_cpu_options(CLI::App& command, BenchArguments& arguments) {
    command.add_option("--arithmetic", arguments.arithmetic, "CPU: fast or bit_exact")
        ->check(one_of("arithmetic", arithmetic_words()))
        ->transform(arithmetic_word)
        ->capture_default_str();
    command.add_option("--threads", arguments.settings.threads, "CPU threads; 0: OpenMP's own choice")
        ->check(whole_number(0, most_int));
    command.add_option("--seconds", arguments.settings.seconds, "CPU: begin no call after this much time of one shape")
        ->capture_default_str();
    command.add_flag("--warm", arguments.settings.warm, "CPU: leave the caches as they are between calls");
}

}  // namespace

void add_bench(CLI::App& program) {
    CLI::App* command =
        program.add_subcommand("bench", "Time a call, and compare it with the least time the machine could take");
    command->footer(
        "Every result is checked before it is timed. Operands are random; the caches are emptied before each call.\n\n"
        "Example:\n  tilewright bench --suite deepseek-v3 --peers\n"
        "  tilewright bench --op m_grouped_offsets --groups 8 --m 64 --n 4096 --k 7168 --recipe row:row,mxfp8:mxfp4 "
        "--json times.jsonl\n  tilewright bench --backend hopper --suite peers --peers --recipe 1d2d");
    const auto arguments = std::make_shared<BenchArguments>();
    add_shape_options(*command, *arguments);
    add_kind_options(*command, *arguments);
    add_timing_options(*command, *arguments);
    command->add_option("--backend", arguments->backend, "automatic, cpu or hopper")
        ->check(one_of("backend", backend_words()))
        ->capture_default_str();
    command->add_flag("--peers", arguments->settings.peers,
                      "Also time a peer in the same run: OpenBLAS's sgemm on f32; GPU: cuBLASLt, and up to 64 rows a "
                      "stream of B's values through TMA");
    command->add_option("--json", arguments->json_path,
                        "Write one JSON object a line to this file (-: to stdout only); GPU: append them to it");
    command->add_option("--tile", arguments->tile, "GPU: this tile and not the planner's, e.g. '256x128x128 stages=4'");
    // `tune` has no such option: its rows hold for calls that need not be invariant.
    command->add_flag("--invariant", arguments->invariant, "GPU: bits that depend on an element's row and column only");
    command->add_flag(
        "--overlap", arguments->settings.overlap,
        "GPU: also time calls in a row, one after another and overlapping (programmatic dependent launch)");
    add_gpu_options(*command, *arguments);
    add_cpu_options(*command, *arguments);
    command->callback([arguments] { bench_command(*arguments); });
}

}  // namespace tilewright::cli
