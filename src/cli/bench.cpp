// `tilewright bench`: the time of a call beside the least time that the machine could take.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/commit.h"
#include "bench/cpu_bench.h"
#include "cli/backends.h"
#include "cli/bench_arguments.h"
#include "cli/bench_gpu_run.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/words.h"
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

nlohmann::ordered_json json_line(const bench::BenchResult& result, const bench::Timing& timing,
                                 const bench::BenchSettings& settings, const std::string& device) {
    const double floor = bench::cpu_peaks().floor_seconds(result.work);
    const bool own = timing.peer.empty();
    const std::string arithmetic(name(settings.arithmetic));
    const auto rounded = [](double value) { return std::stod(fmt::format("{:.4g}", value)); };
    nlohmann::ordered_json line{
        {"peer", own ? fmt::format("Tilewright {} ({}, {})", TILEWRIGHT_VERSION, name(settings.recipe), arithmetic)
                     : timing.peer},
        {"op", bench::operation_name(result.shape.grouping)},
        {"shape", bench::shape_key(result.shape)},
        {"us", rounded(timing.seconds * 1e6)},
        {"tflops", rounded(result.work.flops / timing.seconds * 1e-12)},
        {"gbs", rounded(result.work.bytes / timing.seconds * 1e-9)},
        {"floor_us", rounded(floor * 1e6)},
        {"ratio", rounded(timing.seconds / floor)},
        {"calls", timing.calls},
        {"recipe", name(settings.recipe)},
        {"grouping", name(result.shape.grouping)},
        {"layout", name(settings.layout)},
        {"output", name(settings.output)},
        {"device", device}};
    if (own) line["arithmetic"] = arithmetic;
    if (std::string(TILEWRIGHT_COMMIT).empty()) return line;
    line["commit"] = TILEWRIGHT_COMMIT;
    return line;
}

std::string recipe_and_arithmetic(const bench::BenchSettings& settings) {
    return name(settings.recipe) + (settings.arithmetic == Arithmetic::bit_exact ? " (bit_exact)" : "");
}

output::Table result_table(const std::vector<bench::BenchShape>& shapes) {
    std::size_t operation = 0;
    std::size_t shape = 0;
    for (const bench::BenchShape& each : shapes) {
        operation = std::max(operation, name(each.grouping).size());
        shape = std::max(shape, bench::shape_text(each).size());
    }
    return output::Table({{.title = "operation", .width = operation},
                          {.title = "shape", .width = shape},
                          {.title = "recipe", .width = 21},
                          {.title = "time", .right = true, .width = 8},
                          {.title = "floor", .right = true, .width = 8},
                          {.title = "ratio", .right = true, .width = 5},
                          {.title = "GFLOP/s", .right = true, .width = 7},
                          {.title = "GB/s", .right = true, .width = 6}});
}

/// One row for Tilewright and one for each peer.
void print_result(const output::Table& table, const bench::BenchResult& result, const bench::BenchSettings& settings) {
    const std::string operation(name(result.shape.grouping));
    if (!result.failure.empty()) {
        fmt::print("{}", table.line({operation, bench::shape_text(result.shape), name(settings.recipe), "WRONG"}));
        return;
    }
    const double floor = bench::cpu_peaks().floor_seconds(result.work);
    for (const bench::Timing& timing : result.timings) {
        const bool own = timing.peer.empty();
        fmt::print("{}", table.line({own ? operation : "", own ? bench::shape_text(result.shape) : "",
                                     own ? recipe_and_arithmetic(settings) : timing.peer,
                                     output::format_duration(timing.seconds), output::format_duration(floor),
                                     output::format_number(timing.seconds / floor),
                                     output::format_number(result.work.flops / timing.seconds * 1e-9),
                                     output::format_number(result.work.bytes / timing.seconds * 1e-9)}));
    }
    std::fflush(stdout);
}

void print_machine(const std::string& device) {
    const bench::Peaks& peaks = bench::cpu_peaks();
    fmt::print("{}; at most {} GFLOP/s and {} GB/s ({})\n", device,
               output::format_number(peaks.flops_per_second * 1e-9),
               output::format_number(peaks.bytes_per_second * 1e-9), peaks.source);
    fmt::print("floor: the larger of flops and bytes over these; ratio: time / floor, 1 is the best there is\n\n");
}

std::vector<bench::BenchSettings> all_settings(const BenchArguments& arguments, Backend backend) {
    std::vector<bench::BenchSettings> list;
    for (const std::string& recipe : arguments.recipes) {
        bench::BenchSettings settings = arguments.settings;
        settings.recipe = parse_recipe(full_recipe(recipe)).value();
        settings.layout = parse_layout(arguments.layout).value();
        settings.output = parse_format(arguments.output).value();
        settings.arithmetic = parse_arithmetic(arguments.arithmetic).value();
        settings.backend = backend;
        list.push_back(settings);
    }
    return list;
}

/// How many results were wrong. JSON lines go to stdout as they come, or into `lines`.
std::size_t run_shapes(const std::vector<bench::BenchShape>& shapes,
                       const std::vector<bench::BenchSettings>& settings_list, const std::string& device,
                       std::string* lines) {
    const output::Table table = result_table(shapes);
    if (lines != nullptr) fmt::print("{}", table.header());
    Progress progress("timing", shapes.size() * settings_list.size());
    std::size_t wrong = 0;
    for (const bench::BenchShape& shape : shapes) {
        for (const bench::BenchSettings& settings : settings_list) {
            progress.advance(0, fmt::format("{} {}", name(shape.grouping), bench::shape_text(shape)));
            const bench::BenchResult result = bench::run_bench(shape, settings);
            progress.clear();
            for (const bench::Timing& timing : result.timings) {
                const std::string line = json_line(result, timing, settings, device).dump() + "\n";
                if (lines != nullptr) *lines += line;
                if (lines == nullptr) fmt::print("{}", line);
            }
            if (lines != nullptr) print_result(table, result, settings);
            if (!result.failure.empty()) {
                ++wrong;
                fmt::print(stderr, "tilewright: bench: {} {} {}: wrong result, not timed: {}\n", name(shape.grouping),
                           bench::shape_text(shape), name(settings.recipe), result.failure);
            }
            progress.advance(1);
        }
    }
    return wrong;
}

/// The tile that was asked for on the command line.
std::optional<PlannedTile> forced_tile(const std::string& text) {
    if (text.empty()) return std::nullopt;
    const std::optional<PlannedTile> tile = parse_tile(text);
    if (!tile) throw UsageError(fmt::format("bench: '{}' is no tile; one reads '256x128x128 stages=4'", text));
    return tile;
}

void bench_on_gpu(const BenchArguments& arguments, const std::vector<bench::BenchShape>& shapes) {
    if (arguments.layout != "nt") throw UsageError("bench: the GPU takes layout nt; others run with --backend cpu");
    const measure::Flush flush = parse_flush(arguments.flush);
    const std::optional<PlannedTile> tile = forced_tile(arguments.tile);
    bench::GpuBench bench(flush);
    bool wrong = false;
    for (const std::string& recipe : arguments.recipes) {
        const bench::GpuRun run{
            .settings = {.recipe = parse_recipe(full_recipe(recipe)).value(),
                         .accumulation = arguments.unpromoted ? Accumulation::unpromoted : Accumulation::promoted,
                         .reproducibility =
                             arguments.invariant ? Reproducibility::invariant : Reproducibility::repeatable,
                         .output = parse_format(arguments.output).value(),
                         .scales = parse_scale_layout(arguments.scale_layout),
                         .tile = tile,
                         .sm_limit = arguments.sm_limit,
                         .repeats = arguments.settings.repeats,
                         .peers = arguments.settings.peers,
                         .overlap = arguments.overlap},
            .flush = flush,
            .peaks = bench.peaks(),
            .device = bench.device().name(),
            .date = bench::today(),
            .command = bench::command_line(),
            .blas_version = arguments.settings.peers ? measure::blas_lt_version() : ""};
        if (!run_on_gpu(bench, shapes, run, arguments.json_path)) wrong = true;
    }
    if (wrong) throw Reported{};
}

void bench_command(const BenchArguments& arguments) {
    Backend backend = parse_backend(arguments.backend).value();
    const std::vector<bench::BenchShape> shapes = chosen_shapes(arguments, "bench");
    const std::string device = backend_device(backend);
    if (backend == Backend::hopper) {
        bench_on_gpu(arguments, shapes);
        return;
    }
    if (arguments.overlap)
        throw UsageError("bench: --overlap times launches on a GPU; with the backend cpu, leave it out");
    const bool json_only = arguments.json_path == "-";
    if (!json_only) print_machine(device);
    std::string lines;
    const std::size_t wrong =
        run_shapes(shapes, all_settings(arguments, backend), device, json_only ? nullptr : &lines);
    if (!json_only && !arguments.json_path.empty()) output::write_text(arguments.json_path, lines);
    if (wrong > 0) throw Reported{};
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
    CLI::App* command = program.add_subcommand("bench", "Time a call beside the least time the machine could take");
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
    // Not of `tune`: its rows hold for calls that need not be invariant.
    command->add_flag("--invariant", arguments->invariant, "GPU: bits that depend on an element's row and column only");
    command->add_flag(
        "--overlap", arguments->overlap,
        "GPU: also time calls in a row, one after another and overlapping (programmatic dependent launch)");
    add_gpu_options(*command, *arguments);
    add_cpu_options(*command, *arguments);
    command->callback([arguments] { bench_command(*arguments); });
}

}  // namespace tilewright::cli
