#include "bench/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/json_lines.h"

namespace tilewright::bench {
namespace {

constexpr std::int64_t few_rows = 400;  // a group's

enum class How { dense, drop_in, exact_ends, row_indices, masked, sustained };

/// Dense shapes by m; the ragged table's shapes have a separate class.
struct ClassKind {
    How how = How::dense;
    const char* name = "";
    bool ragged = false;
    std::int64_t least_m = 0;
    std::int64_t most_m = std::int64_t{1} << 62;
    double target = 0;
};

constexpr std::array kinds{
    ClassKind{.name = "dense ragged", .ragged = true, .target = 1.33},
    ClassKind{.name = "dense m = 64, 128", .most_m = 128, .target = 1.12},
    ClassKind{.name = "dense m = 1024", .least_m = 129, .most_m = 4095, .target = 1.08},
    ClassKind{.name = "dense m >= 4096", .least_m = 4096, .target = 1.02},
    ClassKind{.how = How::drop_in, .name = "contiguous, drop-in", .target = 1.08},
    ClassKind{.how = How::exact_ends, .name = "contiguous, exact ends", .target = 1.12},
    ClassKind{.how = How::exact_ends, .name = "exact ends, below 400 rows", .most_m = few_rows - 1, .target = 1.20},
    ClassKind{.how = How::row_indices, .name = "contiguous, row indices"},
    ClassKind{.how = How::masked, .name = "masked", .target = 1.10},
    ClassKind{.how = How::sustained, .name = "sustained, pJ per FLOP", .target = 1.00},
};
constexpr int orders = 3;  // of scales along m, along k, and as callers of the drop-in have them

Grouping grouping_of(How how) {
    switch (how) {
        case How::drop_in:
        case How::row_indices: return Grouping::m_grouped_indices;
        case How::exact_ends: return Grouping::m_grouped_offsets;
        case How::masked: return Grouping::m_grouped_masked;
        case How::dense:
        case How::sustained: break;
    }
    return Grouping::dense;
}

How how_of(const RecordedTime& time) {
    switch (time.shape.grouping) {
        case Grouping::m_grouped_indices: return time.drop_in ? How::drop_in : How::row_indices;
        case Grouping::m_grouped_offsets: return How::exact_ends;
        case Grouping::m_grouped_masked: return How::masked;
        default: return How::dense;
    }
}

bool holds(const ClassKind& kind, const BenchShape& shape) {
    if (shape.m < kind.least_m || shape.m > kind.most_m) return false;
    if (kind.how == How::sustained) return peer_picojoules(shape).has_value();
    const bool is_ragged = find_peer(ragged_peers(), "DeepGEMM", shape) != nullptr;
    return kind.how != How::dense || kind.ragged == is_ragged;
}

/// Older records have it only in the command.
Grouping recorded_grouping(const nlohmann::json& row) {
    const std::string operation = row.at("op");
    const std::string word = row.value("grouping", operation);
    for (const Grouping grouping : all_groupings) {
        if (word == name(grouping)) return grouping;
    }
    const std::string command = row.value("command", "");
    return command.find("m_grouped_indices") != std::string::npos ? Grouping::m_grouped_indices
                                                                  : Grouping::m_grouped_offsets;
}

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

/// cuBLASLt per tensor on the reference product. Older records have its time in lines of grouped shapes.
bool is_reference(const nlohmann::json& row) {
    const std::string peer = row.at("peer");
    const bool per_tensor = begins(peer, "cuBLASLt") && peer.find("per-tensor") != std::string::npos;
    if (!per_tensor || row.contains("sustained_s") || row.value("flush", "clean") != "clean") return false;
    return row.at("op") != "dense" || row.at("shape") == nlohmann::json(shape_key(reference_product));
}

/// As users call, with the planner's choice: no other recipe, no --tile, no --sms.
bool is_ours(const nlohmann::json& row) {
    const std::string command = row.value("command", "");
    const auto has = [&](const char* word) { return command.find(word) != std::string::npos; };
    const bool sustained = row.contains("sustained_s");
    return begins(row.at("peer"), "Tilewright") && row.value("recipe", "") == "1x128:128x128" &&
           row.value("output", "bf16") == "bf16" && row.value("accumulation", "promoted") == "promoted" &&
           row.value("flush", "clean") == (sustained ? "none" : "clean") && !has(" --invariant") && !has(" --tile") &&
           !has(" --sms");
}

void add_row(const nlohmann::json& row, std::vector<RecordedTime>& times) {
    using Kind = RecordedTime::Kind;
    const bool reference = is_reference(row);
    if (!reference && !is_ours(row)) return;
    const std::optional<BenchShape> shape = shape_of_key(recorded_grouping(row), row.at("shape"));
    if (!shape) return;
    times.push_back({.kind = reference                     ? Kind::reference
                             : row.contains("sustained_s") ? Kind::ours_sustained
                                                           : Kind::ours,
                     .shape = *shape,
                     .seconds = row.at("us").get<double>() * 1e-6,
                     .picojoules = row.value("pj_per_flop", 0.0),
                     .drop_in = row.value("drop_in", false),
                     .along_m = row.value("scales_along", "m") == "m",
                     .tuned_rows = row.value("tuned_rows", true),
                     .run = fmt::format("{} ({} {})", row.value("command", ""), row.value("commit", ""),
                                        row.value("started", row.value("date", "")))});
}

}  // namespace

std::vector<RecordedTime> recorded_times(const std::string& lines) {
    std::vector<RecordedTime> times;
    read_json_lines(lines, "`tilewright bench --json`", [&](const nlohmann::json& row) { add_row(row, times); });
    return times;
}

std::vector<ClassName> classes_of(const RecordedTime& time) {
    std::vector<ClassName> names;
    const How how = how_of(time);
    const int order = time.drop_in ? 2 : time.along_m ? 0 : 1;
    const std::array suffixes{", scales along m", ", scales along k", how == How::drop_in ? "" : ", drop-in"};
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        if (kinds[i].how != how || !holds(kinds[i], time.shape)) continue;
        names.push_back({.place = static_cast<int>(i) * orders + order,
                         .name = std::string(kinds[i].name) + suffixes[static_cast<std::size_t>(order)]});
    }
    return names;
}

ClassName sustained_class() {
    return {.place = static_cast<int>(kinds.size() - 1) * orders, .name = kinds.back().name};
}

std::size_t shapes_in_class(int place) {
    const ClassKind& kind = kinds.at(static_cast<std::size_t>(place / orders));
    const std::vector<BenchShape> shapes = peer_shapes(peers_table(), grouping_of(kind.how));
    return static_cast<std::size_t>(
        std::ranges::count_if(shapes, [&](const BenchShape& shape) { return holds(kind, shape); }));
}

double target_of_class(int place) { return kinds.at(static_cast<std::size_t>(place / orders)).target; }

}  // namespace tilewright::bench
