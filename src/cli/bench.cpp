// `tilewright bench`: the time of a call, and the least time that the machine could take for it.
#include <fmt/format.h>

#include <functional>
#include <memory>

#include "bench/cpu_bench.h"
#include "bench/gpu_bench.h"
#include "bench/record.h"
#include "bench/report.h"
#include "cli/backends.h"
#include "cli/bench_arguments.h"
#include "cli/bench_session.h"
#include "cli/commands.h"
#include "cli/words.h"
#include "measure/blas_lt.h"
#include "output/file.h"
#include "output/streams.h"

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

bool bench_on_gpu(const BenchArguments& arguments, const std::vector<bench::BenchShape>& shapes) {
    const std::vector<bench::Settings> all = all_settings(arguments, Backend::hopper);
    const std::string started = bench::now();
    bench::GpuBench gpu(all.front().flush);
    const bool tables = arguments.json_path != "-";
    const auto records = [&](const std::string& lines) {
        if (!tables) output::print("{}", lines);
        if (tables && !arguments.json_path.empty()) output::append_text(arguments.json_path, lines);
    };
    Session session(
        shapes, [&](const auto& shape, const auto& settings) { return gpu.run(shape, settings); }, records, tables);
    for (const bench::Settings& settings : all) {
        const bench::Run run{.settings = settings,
                             .peaks = gpu.peaks(settings.recipe),
                             .device = gpu.device().name(),
                             .date = bench::today(),
                             .command = bench::command_line(),
                             .blas_version = settings.peers ? measure::blas_lt_version() : "",
                             .started = started};
        const std::string power_source = settings.sustained ? gpu.power_source() : "";
        if (tables) {
            print_gpu_head(run, power_source);
        } else if (settings.sustained && !gpu.measures_power()) {
            output::complain("tilewright: bench: power {}\n", power_source);
        }
        const std::vector<bench::Result> results = session.run({run});
        if (tables) output::print("\n{}", bench::summary(results, run));
    }
    return !session.wrong();
}

bool bench_on_cpu(const BenchArguments& arguments, const std::vector<bench::BenchShape>& shapes, Backend backend,
                  const std::string& device) {
    if (arguments.settings.overlap)
        throw UsageError("bench: --overlap needs the hopper backend; omit it with --backend cpu");
    if (arguments.settings.sustained)
        throw UsageError("bench: --sustained needs the hopper backend; omit it with --backend cpu");
    require_file(arguments.json_path);
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
        if (!tables) output::print("{}", lines);
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
    command.add_option("--threads", arguments.settings.threads, "CPU threads (0: OpenMP's default)")
        ->check(whole_number(0, most_int));
    command.add_flag("--warm", arguments.settings.warm, "CPU: do not empty the caches between calls");
}

void add_hot_option(CLI::App& command, BenchArguments& arguments) {
    command
        .add_option("--hot", arguments.hot,
                    "Make the first group N times as large as each other group (rows; k-grouped: k); 1 makes all "
                    "equal. Default: sizes vary by 30 %")
        ->check(whole_number(1, most_int));
}

/// Options that decide which kernel runs, in addition to the shape.
void add_choice_options(CLI::App& command, BenchArguments& arguments) {
    command.add_option("--tile", arguments.tile,
                       "GPU: use this tile instead of the planner's, e.g. '256x128x128 stages=4'");
    command.add_flag("--no-tuned-rows", arguments.model_alone,
                     "GPU: let the planner use only its model, without tuned rows");
    // `tune` has no such option: its rows hold for calls that need not be invariant.
    command.add_flag("--invariant", arguments.invariant,
                     "GPU: make the bits of an element depend only on its row and column");
}

}  // namespace

void add_bench(CLI::App& program) {
    CLI::App* command = program.add_subcommand("bench", "Time a call and compare it with the machine's lower bound");
    command->footer(
        "Checks every result before timing it. Operands are random; caches are emptied before each call.\n\nExample:\n "
        " tilewright bench --suite deepseek-v3 --peers\n  tilewright bench --op m_grouped_offsets --groups 8 --m 64 "
        "--n 4096 --k 7168 --recipe row:row,mxfp8:mxfp4 --json times.jsonl\n  tilewright bench --op m_grouped_offsets "
        "--groups 8 --m 2048 --n 7168 --k 2048 --hot 30\n  tilewright bench --backend hopper --suite peers --peers "
        "--recipe 1d2d\n  tilewright bench --suite peers --m 4096 --sustained --peers");
    const auto arguments = std::make_shared<BenchArguments>();
    add_shape_options(*command, *arguments);
    add_group_options(*command, *arguments);
    add_hot_option(*command, *arguments);
    add_operand_options(*command, *arguments);
    add_timing_options(*command, *arguments);
    command->add_option("--backend", arguments->backend, "automatic, cpu or hopper")
        ->check(one_of("backend", backend_words()))
        ->capture_default_str();
    command->add_flag("--peers", arguments->settings.peers,
                      "Also time the baselines in the same run. CPU: OpenBLAS sgemm on f32. GPU: cuBLASLt, also "
                      "grouped, and up to 64 rows a TMA stream of B's values");
    command->add_option("--json", arguments->json_path,
                        "Write one JSON object per line to this file (-: only to stdout); GPU: append");
    add_choice_options(*command, *arguments);
    CLI::Option* overlap =
        command->add_flag("--overlap", arguments->settings.overlap,
                          "GPU: also time calls in sequence, with and without overlap (programmatic dependent launch)");
    command
        ->add_flag(
            "--sustained", arguments->settings.sustained,
            "GPU: measure TFLOP/s, watts (NVML) and pJ per FLOP under continuous load; with --peers also cuBLASLt")
        ->excludes(overlap);
    command
        ->add_option("--seconds", arguments->seconds,
                     "CPU: start no call of a shape after N seconds (default 2); with --sustained: measure for N "
                     "seconds after N seconds of warm-up (default 4)")
        ->check(seconds());
    add_gpu_options(*command, *arguments);
    add_cpu_options(*command, *arguments);
    add_bench_moe(*command);
    run_without_subcommand(*command, {}, [arguments] { bench_command(*arguments); });
}

}  // namespace tilewright::cli
