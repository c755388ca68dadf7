#include "bench/gpu_report.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>

#include "bench/commit.h"
#include "measure/statistics.h"

namespace tilewright::bench {
namespace {

struct ShapeClass {
    const char* name;
    std::int64_t least_m;
    std::int64_t most_m;
};

// The classes of the marks.
constexpr std::array classes{ShapeClass{"m >= 4096", 4096, std::numeric_limits<std::int64_t>::max()},
                             ShapeClass{"m = 129 .. 4095", 129, 4095}, ShapeClass{"m <= 128", 0, 128}};

std::string microseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e6); }

std::string gigahertz(double hertz) { return hertz > 0 ? fmt::format("{:.2f}", hertz * 1e-9) : ""; }

std::string rival_name(const std::vector<BenchShape>& shapes, const Recipe& recipe) {
    const std::string name = rival(recipe, shapes.front().grouping);
    return name.substr(0, name.find(' '));
}

std::optional<double> seconds_of(const std::optional<measure::Measurement>& measured) {
    if (!measured) return std::nullopt;
    return measured->seconds;
}

std::optional<double> speed(const GpuResult& result, const GpuRun& run) {
    if (!result.failure.empty()) return std::nullopt;
    return speed_against_rival(peers_table(), run.settings.recipe, result.shape, result.ours.seconds,
                               seconds_of(result.blas_tensor));
}

std::string flush_word(measure::Flush flush) {
    if (flush == measure::Flush::none) return "none";
    return flush == measure::Flush::dirty ? "dirty" : "clean";
}

double rounded(double value) { return std::stod(fmt::format("{:.5g}", value)); }

nlohmann::ordered_json line(const std::string& peer, const measure::Measurement& measured, const GpuResult& result,
                            const GpuRun& run) {
    const double floor = run.peaks.floor_seconds(result.work);
    return {{"peer", peer},
            {"op", operation_name(result.shape.grouping)},
            {"shape", shape_key(result.shape)},
            {"us", rounded(measured.seconds * 1e6)},
            {"tflops", rounded(result.work.flops / measured.seconds * 1e-12)},
            {"gbs", rounded(result.work.bytes / measured.seconds * 1e-9)},
            {"clock_ghz", rounded(measured.hertz * 1e-9)},
            {"calls", measured.calls},
            {"floor_us", rounded(floor * 1e6)},
            {"ratio", rounded(measured.seconds / floor)},
            {"output", name(run.settings.output)},
            {"flush", flush_word(run.flush)},
            {"device", run.device},
            {"date", run.date},
            {"commit", TILEWRIGHT_COMMIT},
            {"command", run.command}};
}

}  // namespace

std::string recipe_text(const GpuSettings& settings) {
    return name(settings.recipe) + (settings.accumulation == Accumulation::unpromoted ? ", unpromoted" : "") +
           (settings.reproducibility == Reproducibility::invariant ? ", invariant" : "");
}

output::Table gpu_table(const std::vector<BenchShape>& shapes, const GpuSettings& settings) {
    const std::string rival = rival_name(shapes, settings.recipe);
    std::size_t shape = 0;
    for (const BenchShape& each : shapes) shape = std::max(shape, shape_text(each).size());
    std::vector<output::Column> columns{{.title = "shape", .width = shape},
                                        {.title = "tile", .width = 34},
                                        {.title = "us", .right = true, .width = 8},
                                        {.title = "GHz", .right = true, .width = 4},
                                        {.title = "floor us", .right = true, .width = 8},
                                        {.title = "ratio", .right = true, .width = 5},
                                        {.title = "cuBLASLt us", .right = true, .width = 11},
                                        {.title = "GHz", .right = true, .width = 4},
                                        {.title = "x cuBLASLt", .right = true},
                                        {.title = "in blocks us", .right = true, .width = 12},
                                        {.title = rival + " us", .right = true, .width = 11},
                                        {.title = "x " + rival, .right = true}};
    if (settings.peers) {
        columns.push_back({.title = "stream us", .right = true, .width = 9});
        columns.push_back({.title = "/ stream", .right = true});
    }
    if (settings.overlap) {
        columns.push_back({.title = "chain us", .right = true, .width = 8});
        columns.push_back({.title = "overlap us", .right = true, .width = 10});
    }
    return output::Table(std::move(columns));
}

std::string gpu_line(const output::Table& table, const GpuResult& result, const GpuRun& run) {
    if (!result.failure.empty()) return table.line({shape_text(result.shape), name(result.tile), "WRONG"});
    const double floor = run.peaks.floor_seconds(result.work);
    std::vector<std::string> cells{
        shape_text(result.shape),     name(result.tile),   microseconds(result.ours.seconds),
        gigahertz(result.ours.hertz), microseconds(floor), fmt::format("{:.2f}", result.ours.seconds / floor)};
    cells.push_back(result.blas_tensor ? microseconds(result.blas_tensor->seconds) : "");
    cells.push_back(result.blas_tensor ? gigahertz(result.blas_tensor->hertz) : "");
    cells.push_back(result.blas_tensor ? fmt::format("{:.3f}", result.blas_tensor->seconds / result.ours.seconds) : "");
    cells.push_back(result.blas_blocks ? microseconds(result.blas_blocks->seconds) : "");
    const std::optional<double> then =
        peer_seconds(peers_table(), rival(run.settings.recipe, result.shape.grouping), result.shape);
    cells.push_back(then ? microseconds(*then) : "");
    const std::optional<double> against = speed(result, run);
    cells.push_back(against ? fmt::format("{:.3f}", *against) : "");
    if (run.settings.peers) {
        cells.push_back(result.stream ? microseconds(result.stream->seconds) : "");
        cells.push_back(result.stream ? fmt::format("{:.3f}", result.ours.seconds / result.stream->seconds) : "");
    }
    if (result.chain) {
        cells.push_back(microseconds(result.chain->apart));
        cells.push_back(microseconds(result.chain->overlapping));
    }
    return table.line(cells);
}

std::vector<nlohmann::ordered_json> gpu_json(const GpuResult& result, const GpuRun& run) {
    if (!result.failure.empty()) return {};
    std::vector<nlohmann::ordered_json> lines;
    const std::string own = fmt::format("Tilewright {} ({})", TILEWRIGHT_VERSION, recipe_text(run.settings));
    lines.push_back(line(own, result.ours, result, run));
    lines.back()["recipe"] = name(run.settings.recipe);
    lines.back()["accumulation"] = name(run.settings.accumulation);
    lines.back()["tile"] = name(result.tile);
    lines.back()["scales_along"] = run.settings.scales == ScaleLayout::m ? "m" : "k";
    if (const std::optional<double> against = speed(result, run)) {
        lines.back()["rival"] = rival(run.settings.recipe, result.shape.grouping);
        lines.back()["speed_against_rival"] = std::stod(fmt::format("{:.4g}", *against));
    }
    if (result.chain) {
        lines.back()["chain_calls"] = measure::chain_calls;
        lines.back()["chain_us"] = rounded(result.chain->apart * 1e6);
        lines.back()["chain_overlap_us"] = rounded(result.chain->overlapping * 1e6);
    }
    const std::string blas = "cuBLASLt " + run.blas_version;
    if (result.blas_tensor) lines.push_back(line(blas + " per-tensor scale", *result.blas_tensor, result, run));
    if (result.blas_blocks) lines.push_back(line(blas + " 1x128 / 128x128 scale", *result.blas_blocks, result, run));
    if (result.stream) {
        lines.push_back(line("TMA stream of B's values", *result.stream, result, run));
        const double bytes = static_cast<double>(result.shape.n) * static_cast<double>(result.shape.k);
        lines.back()["gbs"] = rounded(bytes / result.stream->seconds * 1e-9);
        lines.back().erase("tflops");
    }
    return lines;
}

std::string gpu_summary(const std::vector<GpuResult>& results, const GpuRun& run) {
    std::string text;
    for (const ShapeClass& each : classes) {
        std::vector<double> speeds;
        double worst = std::numeric_limits<double>::infinity();
        std::string where;
        for (const GpuResult& result : results) {
            const std::optional<double> against = speed(result, run);
            if (!against || result.shape.m < each.least_m || result.shape.m > each.most_m) continue;
            speeds.push_back(*against);
            if (*against < worst) {
                worst = *against;
                where = shape_text(result.shape);
            }
        }
        if (speeds.empty()) continue;
        text += fmt::format("{}: {} shapes, {:.3f}x the speed of {} in the geometric mean, worst {:.3f}x at {}\n",
                            each.name, speeds.size(), measure::geometric_mean(speeds),
                            rival(run.settings.recipe, results.front().shape.grouping), worst, where);
    }
    return text;
}

std::string today() {
    const auto now = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
    const std::chrono::year_month_day day{now};
    return fmt::format("{}-{:02}-{:02}", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                       static_cast<unsigned>(day.day()));
}

std::string command_line() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string text;
    for (std::string word; std::getline(file, word, '\0');) {
        if (text.empty()) word = std::filesystem::path(word).filename().string();
        const bool plain = word.find_first_of(" '\"") == std::string::npos;
        text += (text.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
    }
    return text;
}

}  // namespace tilewright::bench
