#include "bench/record.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "bench/commit.h"
#include "bench/report.h"
#include "output/json.h"

namespace tilewright::bench {
namespace {

double rounded(double value) { return std::stod(fmt::format("{:.5g}", value)); }

std::string flush_word(measure::Flush flush) {
    if (flush == measure::Flush::none) return "none";
    return flush == measure::Flush::dirty ? "dirty" : "clean";
}

const char* scales_word(const Settings& settings) { return settings.scales == ScaleLayout::m ? "m" : "k"; }

/// The hint, and sizes that do not follow from the shape.
void add_groups(nlohmann::ordered_json& line, const BenchShape& shape) {
    if (shape.grouping == Grouping::m_grouped_masked) line["expected_m"] = shape.expected_m();
    if (!shape.sizes.empty()) line["group_sizes"] = shape.sizes;
}

/// The additional members of a tuned call, where they are not the usual.
void add_operands(nlohmann::ordered_json& line, const Settings& settings) {
    if (settings.layout != Layout::nt) line["layout"] = name(settings.layout);
    if (settings.unpacked) line["unpacked"] = true;
    if (settings.wide_rows > 0) line["wide_rows"] = settings.wide_rows;
}

void add_code(nlohmann::ordered_json& line) {
    line["commit"] = TILEWRIGHT_COMMIT;
    if (*TILEWRIGHT_TREES != '\0') line["trees"] = TILEWRIGHT_TREES;
}

void add_origin(nlohmann::ordered_json& line, const Run& run) {
    line["device"] = run.device;
    line["date"] = run.date;
    if (!run.started.empty()) line["started"] = run.started;
    add_code(line);
    line["command"] = run.command;
}

/// The members of lines of continuous load.
void add_load(nlohmann::ordered_json& line, const Timing& timing, const Result& result, const Run& run) {
    line["sustained_s"] = run.settings.seconds;
    if (timing.watts <= 0) return;
    line["watts"] = rounded(timing.watts);
    line["pj_per_flop"] = rounded(timing.picojoules(result.work.flops));
}

/// The members that only Tilewright's own lines have.
void add_own(nlohmann::ordered_json& line, const Result& result, const Run& run) {
    const Settings& settings = run.settings;
    if (!run.on_gpu()) {
        line["arithmetic"] = name(settings.arithmetic);
        return;
    }
    line["accumulation"] = name(settings.accumulation);
    line["tile"] = name(result.tile.value());
    line["scales_along"] = scales_word(settings);
    line["tuned_rows"] = settings.tuned_rows;
    add_groups(line, result.shape);
    if (!result.sequence) return;
    line["sequence_calls"] = measure::sequence_calls;
    line["sequence_us"] = rounded(result.sequence->apart * 1e6);
    line["sequence_overlap_us"] = rounded(result.sequence->overlapping * 1e6);
}

}  // namespace

std::string peer_name(Peer peer, const Run& run) {
    switch (peer) {
        case Peer::sgemm: return "OpenBLAS sgemm on f32";
        case Peer::blas_tensor: return fmt::format("cuBLASLt {} per-tensor scale", run.blas_version);
        case Peer::blas_blocks: return fmt::format("cuBLASLt {} 1x128 / 128x128 scale", run.blas_version);
        case Peer::blas_groups: return fmt::format("cuBLASLt {} grouped product, e4m3", run.blas_version);
        case Peer::blas_bf16_groups: return fmt::format("cuBLASLt {} grouped product, bf16", run.blas_version);
        case Peer::stream: return "TMA stream of B's values";
        case Peer::tilewright: break;
    }
    if (run.on_gpu()) return fmt::format("Tilewright {} ({})", TILEWRIGHT_VERSION, recipe_text(run.settings));
    return fmt::format("Tilewright {} ({}, {})", TILEWRIGHT_VERSION, name(run.settings.recipe),
                       name(run.settings.arithmetic));
}

nlohmann::ordered_json record(const Result& result, const Timing& timing, const Run& run) {
    const double floor = run.peaks.floor_seconds(result.work);
    const bool stream = timing.peer == Peer::stream;
    const double stream_bytes = static_cast<double>(result.shape.n) * static_cast<double>(result.shape.k);
    nlohmann::ordered_json line{{"peer", peer_name(timing.peer, run)},
                                {"op", operation_name(result.shape.grouping)},
                                {"shape", shape_key(result.shape)},
                                {"us", rounded(timing.seconds * 1e6)}};
    if (!stream) line["tflops"] = rounded(result.work.flops / timing.seconds * 1e-12);
    line["gbs"] = rounded((stream ? stream_bytes : result.work.bytes) / timing.seconds * 1e-9);
    if (timing.hertz > 0) line["clock_ghz"] = rounded(timing.hertz * 1e-9);
    line["calls"] = timing.calls;
    line["floor_us"] = rounded(floor * 1e6);
    line["ratio"] = rounded(timing.seconds / floor);
    line["output"] = name(run.settings.output);
    if (run.settings.accumulate && timing.peer == Peer::tilewright) line["accumulates"] = true;
    if (run.on_gpu()) line["flush"] = flush_word(run.settings.sustained ? measure::Flush::none : run.settings.flush);
    if (run.settings.sustained) add_load(line, timing, result, run);
    add_origin(line, run);
    if (timing.peer == Peer::tilewright || !run.on_gpu()) {
        line["recipe"] = name(run.settings.recipe);
        line["grouping"] = name(result.shape.grouping);
        line["layout"] = name(run.settings.layout);
    }
    if (timing.peer == Peer::tilewright) add_own(line, result, run);
    return line;
}

nlohmann::ordered_json record(const TunedShape& tuned, const TriedTile& tried, const Run& run) {
    nlohmann::ordered_json line{{"op", operation_name(tuned.shape.grouping)},
                                {"shape", shape_key(tuned.shape)},
                                {"grouping", name(tuned.shape.grouping)},
                                {"recipe", name(run.settings.recipe)},
                                {"accumulation", name(run.settings.accumulation)},
                                {"scales_along", scales_word(run.settings)},
                                {"output", name(run.settings.output)},
                                {"tile", tried.plan.tile},
                                {"us", rounded(tried.measured.seconds * 1e6)},
                                {"clock_ghz", rounded(tried.measured.hertz * 1e-9)},
                                {"predicted_us", rounded(tried.plan.cost.seconds * 1e6)}};
    add_groups(line, tuned.shape);
    add_operands(line, run.settings);
    add_origin(line, run);
    return line;
}

std::string tune_records(const TunedShape& tuned, const Run& run) {
    std::string lines;
    for (const TriedTile& tried : tuned.tried) lines += output::json_text(record(tuned, tried, run)) + "\n";
    return lines;
}

nlohmann::ordered_json with_origin(nlohmann::ordered_json line) {
    line["date"] = today();
    line["started"] = now();
    add_code(line);
    line["command"] = command_line();
    return line;
}

std::string today() {
    const auto now = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
    const std::chrono::year_month_day day{now};
    return fmt::format("{}-{:02}-{:02}", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                       static_cast<unsigned>(day.day()));
}

std::string now() {
    const auto time = std::chrono::system_clock::now();
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::hh_mm_ss clock{std::chrono::floor<std::chrono::seconds>(time - day)};
    return fmt::format("{}T{:02}:{:02}:{:02}Z", today(), clock.hours().count(), clock.minutes().count(),
                       clock.seconds().count());
}

std::string command_line() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string text;
    for (std::string word; std::getline(file, word, '\0');) {
        if (text.empty()) word = std::filesystem::path(word).filename().string();
        const bool needs_quotes = word.find_first_of(" '\"") != std::string::npos;
        text += (text.empty() ? "" : " ") + (needs_quotes ? "'" + word + "'" : word);
    }
    return text;
}

}  // namespace tilewright::bench
