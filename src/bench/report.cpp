#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "bench/blas_groups.h"
#include "bench/record.h"
#include "bench/sustained_report.h"
#include "measure/statistics.h"
#include "output/json.h"

namespace tilewright::bench {
namespace {

struct RowClass {
    const char* name;
    std::int64_t least_m;
    std::int64_t most_m;
};

constexpr std::array classes{RowClass{"m >= 4096", 4096, std::numeric_limits<std::int64_t>::max()},
                             RowClass{"m = 129 .. 4095", 129, 4095}, RowClass{"m <= 128", 0, 128}};

std::string microseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e6); }
std::string gigahertz(double hertz) { return hertz > 0 ? fmt::format("{:.2f}", hertz * 1e-9) : ""; }

/// cuBLASLt's time of the same product in the same run, with one scale per tensor; nullptr where it was not timed.
const Timing* blas_timing(const Result& result) {
    return result.of(has_blas_groups(result.shape.grouping) ? Peer::blas_groups : Peer::blas_tensor);
}

std::optional<double> speed(const Result& result, const Run& run) {
    if (!result.failure.empty() || run.settings.sustained) return std::nullopt;
    const Timing* blas = blas_timing(result);
    if (blas == nullptr) return std::nullopt;
    return blas->seconds / result.ours().seconds;
}

std::size_t widest_shape(const std::vector<BenchShape>& shapes) {
    std::size_t width = 0;
    for (const BenchShape& shape : shapes) width = std::max(width, shape_text(shape).size());
    return width;
}

output::Table cpu_table(const std::vector<BenchShape>& shapes) {
    std::size_t operation = 0;
    for (const BenchShape& shape : shapes) operation = std::max(operation, name(shape.grouping).size());
    return output::Table({{.title = "operation", .width = operation},
                          {.title = "shape", .width = widest_shape(shapes)},
                          {.title = "recipe", .width = 21},
                          {.title = "time", .right = true, .width = 8},
                          {.title = "floor", .right = true, .width = 8},
                          {.title = "ratio", .right = true, .width = 5},
                          {.title = "GFLOP/s", .right = true, .width = 7},
                          {.title = "GB/s", .right = true, .width = 6}});
}

output::Table gpu_table(const std::vector<BenchShape>& shapes, const Run& run) {
    const bool grouped = has_blas_groups(shapes.front().grouping);
    std::vector<output::Column> columns{{.title = "shape", .width = widest_shape(shapes)},
                                        {.title = "tile", .width = 34},
                                        {.title = "us", .right = true, .width = 8},
                                        {.title = "GHz", .right = true, .width = 4},
                                        {.title = "floor us", .right = true, .width = 8},
                                        {.title = "ratio", .right = true, .width = 5},
                                        {.title = "cuBLASLt us", .right = true, .width = 11},
                                        {.title = "GHz", .right = true, .width = 4},
                                        {.title = "x cuBLASLt", .right = true},
                                        {.title = grouped ? "in bf16 us" : "in blocks us", .right = true, .width = 12}};
    if (run.settings.peers) {
        columns.push_back({.title = "stream us", .right = true, .width = 9});
        columns.push_back({.title = "/ stream", .right = true});
    }
    if (run.settings.overlap) {
        columns.push_back({.title = "in turn us", .right = true, .width = 10});
        columns.push_back({.title = "overlap us", .right = true, .width = 10});
    }
    return output::Table(std::move(columns));
}

std::string cpu_lines(const output::Table& table, const Result& result, const Run& run) {
    const std::string operation(name(result.shape.grouping)), shape = shape_text(result.shape);
    if (!result.failure.empty()) return table.line({operation, shape, name(run.settings.recipe), "WRONG"});
    const double floor = run.peaks.floor_seconds(result.work);
    std::string lines;
    for (const Timing& timing : result.timings) {
        const bool own = timing.peer == Peer::tilewright;
        lines += table.line({own ? operation : "", own ? shape : "",
                             own ? recipe_text(run.settings) : peer_name(timing.peer, run),
                             output::format_duration(timing.seconds), output::format_duration(floor),
                             output::format_number(timing.seconds / floor),
                             output::format_number(result.work.flops / timing.seconds * 1e-9),
                             output::format_number(result.work.bytes / timing.seconds * 1e-9)});
    }
    return lines;
}

std::string gpu_line(const output::Table& table, const Result& result, const Run& run) {
    const std::string tile = result.tile ? name(*result.tile) : "";
    if (!result.failure.empty()) return table.line({shape_text(result.shape), tile, "WRONG"});
    const Timing& ours = result.ours();
    const double floor = run.peaks.floor_seconds(result.work);
    std::vector<std::string> cells{shape_text(result.shape),   tile,
                                   microseconds(ours.seconds), gigahertz(ours.hertz),
                                   microseconds(floor),        fmt::format("{:.2f}", ours.seconds / floor)};
    const bool grouped = has_blas_groups(result.shape.grouping);
    const Timing* tensor = blas_timing(result);
    const std::optional<double> against = speed(result, run);
    cells.push_back(tensor != nullptr ? microseconds(tensor->seconds) : "");
    cells.push_back(tensor != nullptr ? gigahertz(tensor->hertz) : "");
    cells.push_back(against ? fmt::format("{:.3f}", *against) : "");
    const Timing* blocks = result.of(grouped ? Peer::blas_bf16_groups : Peer::blas_blocks);
    cells.push_back(blocks != nullptr ? microseconds(blocks->seconds) : "");
    if (run.settings.peers) {
        const Timing* stream = result.of(Peer::stream);
        cells.push_back(stream != nullptr ? microseconds(stream->seconds) : "");
        cells.push_back(stream != nullptr ? fmt::format("{:.3f}", ours.seconds / stream->seconds) : "");
    }
    if (result.sequence) {
        cells.push_back(microseconds(result.sequence->apart));
        cells.push_back(microseconds(result.sequence->overlapping));
    }
    return table.line(cells);
}

}  // namespace

const Timing* Result::of(Peer peer) const {
    const auto found = std::find_if(timings.begin(), timings.end(), [=](const Timing& t) { return t.peer == peer; });
    return found == timings.end() ? nullptr : &*found;
}

std::string recipe_text(const Settings& settings) {
    std::string text = name(settings.recipe);
    if (settings.backend != Backend::hopper) {
        return text + (settings.arithmetic == Arithmetic::bit_exact ? " (bit_exact)" : "");
    }
    if (settings.accumulation == Accumulation::unpromoted) text += ", unpromoted";
    if (settings.reproducibility == Reproducibility::invariant) text += ", invariant";
    if (settings.layout != Layout::nt) text += fmt::format(", layout {}", name(settings.layout));
    if (settings.unpacked) text += ", packed at each call";
    if (settings.wide_rows > 0) text += fmt::format(", one row in {} wide", settings.wide_rows);
    return text;
}

output::Table result_table(const std::vector<BenchShape>& shapes, const Run& run) {
    if (run.settings.sustained) return sustained_table(shapes, run);
    return run.on_gpu() ? gpu_table(shapes, run) : cpu_table(shapes);
}

std::string result_lines(const output::Table& table, const Result& result, const Run& run) {
    if (run.settings.sustained) return sustained_line(table, result, run);
    return run.on_gpu() ? gpu_line(table, result, run) : cpu_lines(table, result, run);
}

std::string result_records(const Result& result, const Run& run) {
    if (!result.failure.empty()) return "";
    std::string lines;
    for (const Timing& timing : result.timings) lines += output::json_text(record(result, timing, run)) + "\n";
    return lines;
}

std::string summary(const std::vector<Result>& results, const Run& run) {
    std::string text;
    for (const RowClass& each : classes) {
        std::vector<double> speeds;
        double worst = std::numeric_limits<double>::infinity();
        std::string where;
        for (const Result& result : results) {
            const std::optional<double> against = speed(result, run);
            if (!against || result.shape.m < each.least_m || result.shape.m > each.most_m) continue;
            speeds.push_back(*against);
            if (*against < worst) {
                worst = *against;
                where = shape_text(result.shape);
            }
        }
        if (speeds.empty()) continue;
        text += fmt::format("{}: {} shapes, {:.3f}x the speed of cuBLASLt in the geometric mean, worst {:.3f}x at {}\n",
                            each.name, speeds.size(), measure::geometric_mean(speeds), worst, where);
    }
    return text;
}

}  // namespace tilewright::bench
