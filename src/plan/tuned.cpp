#include "plan/tuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "plan/tsv.h"

namespace tilewright::planner {
namespace {

constexpr std::string_view hint_word = " expected_m=";
constexpr std::string_view rows_word = " m=";

/// The number after `word` in a key; nothing where the word is missing.
std::optional<std::int64_t> number_after(std::string_view key, std::string_view word) {
    const std::size_t at = key.find(word);
    if (at == std::string_view::npos) return std::nullopt;
    std::int64_t value = 0;
    const char* const begin = key.data() + at + word.size();
    return std::from_chars(begin, key.data() + key.size(), value).ec == std::errc{} ? std::optional(value)
                                                                                    : std::nullopt;
}

std::string without_hint(std::string_view key) {
    std::string text(key);
    const std::size_t at = text.find(hint_word);
    if (at == std::string::npos) return text;
    return text.erase(at, text.find(' ', at + hint_word.size()) - at);
}

/// Rows of a group that a key expects: no more than the tensor has, all of them without a hint.
double expected_rows(std::string_view key) {
    const std::int64_t all = number_after(key, rows_word).value_or(0);
    return static_cast<double>(std::min(number_after(key, hint_word).value_or(all), all));
}

/// With the mean that a hint speaks of, if it were larger by a factor.
Workload with_hint(Workload work, double factor) {
    const double all = std::max(1.0, static_cast<double>(work.geometry.m));
    const double hint = std::clamp(static_cast<double>(work.rows) * factor, 1.0, all);
    work.rows = std::max<std::int64_t>(1, std::llround(hint / hint_over_mean));
    work.total_rows = static_cast<double>(work.products) * static_cast<double>(work.rows);
    return work;
}

}  // namespace

std::vector<TunedRow> parse_tuned(std::string_view text) {
    const Tsv table = parse_tsv(text, {"device", "problem", "tile", "date", "command"});
    if (!table.problems.empty()) throw std::logic_error("src/plan/tuned: " + table.problems.front().text());
    std::vector<TunedRow> rows;
    for (const auto& [line, cells] : table.rows) {
        const std::optional<PlannedTile> tile = parse_tile(cells[2]);
        if (!tile) throw std::logic_error(fmt::format("src/plan/tuned: line {}: '{}' is not a tile", line, cells[2]));
        rows.push_back({.device = std::string(cells[0]),
                        .problem = std::string(cells[1]),
                        .tile = *tile,
                        .date = std::string(cells[3]),
                        .command = std::string(cells[4])});
    }
    return rows;
}

const std::vector<TunedRow>& tuned_rows() {
    static const std::vector<TunedRow> all = parse_tuned(tuned_table);
    return all;
}

const TunedRow* tuned_row(const std::vector<TunedRow>& rows, std::string_view device, const Workload& work) {
    const std::string key = without_hint(work.key);
    const double here = expected_rows(work.key);
    const TunedRow* nearest = nullptr;
    double distance = farthest_hint;
    for (const TunedRow& row : rows) {
        if (row.device != device || without_hint(row.problem) != key) continue;
        const double there = expected_rows(row.problem);
        const double ratio = here > there ? here / there : there / here;
        if (ratio > distance) continue;
        distance = ratio;
        nearest = &row;
    }
    return nearest;
}

std::vector<Workload> expectations(const Workload& work) {
    std::vector<Workload> list;
    for (int step = -4; step <= 4; ++step) list.push_back(with_hint(work, std::exp2(step / 4.0)));
    return list;
}

}  // namespace tilewright::planner
