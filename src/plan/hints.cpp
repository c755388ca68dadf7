#include "plan/hints.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "plan/tma.h"

namespace tilewright::planner {
namespace {

/// The number after `word` in a key; nothing where the word is missing.
std::optional<std::int64_t> number_after(std::string_view key, std::string_view word) {
    const std::size_t at = key.find(word);
    if (at == std::string_view::npos) return std::nullopt;
    std::int64_t value = 0;
    const char* const begin = key.data() + at + word.size();
    return std::from_chars(begin, key.data() + key.size(), value).ec == std::errc{} ? std::optional(value)
                                                                                    : std::nullopt;
}

constexpr std::string_view hint_word = " expected_m=";
constexpr std::string_view rows_word = " m=";

/// Without `word` and the number after it.
std::string without(std::string_view key, std::string_view word) {
    std::string text(key);
    const std::size_t at = text.find(word);
    if (at == std::string::npos) return text;
    return text.erase(at, text.find(' ', at + word.size()) - at);
}

std::string without_hint(std::string_view key) { return without(key, hint_word); }

/// All but the rows of a problem whose groups follow one another, and how they are described.
std::string without_rows(std::string_view key) { return without(key.substr(key.find(' ')), rows_word); }

/// Rows of a group that a key expects: no more than the tensor has, all of them without a hint.
std::int64_t expected_rows(std::string_view key) {
    const std::int64_t all = number_after(key, rows_word).value_or(0);
    return std::min(number_after(key, hint_word).value_or(all), all);
}

/// With the mean that a hint speaks of, if it were larger by a factor.
Workload with_hint(Workload work, double factor) {
    const double all = std::max(1.0, static_cast<double>(work.geometry.m));
    const double hint = std::clamp(static_cast<double>(work.rows) * factor, 1.0, all);
    work.rows = std::max<std::int64_t>(1, std::llround(hint / hint_over_mean));
    work.total_rows = static_cast<double>(work.products) * static_cast<double>(work.rows);
    return work;
}

/// Exact ends and padded groups use the same tiles if the rows of a group differ by at most this factor.
constexpr double same_rows = 1.1;

/// The row for the same groups by exact ends, as near in rows as any; null if there is none.
const TunedRow* row_of_exact_ends(const std::vector<TunedRow>& rows, std::string_view device, const Workload& work) {
    const std::string key = without_rows(work.key);
    const TunedRow* nearest = nullptr;
    double distance = same_rows;
    for (const TunedRow& row : rows) {
        if (row.device != device || !row.problem.starts_with("m_grouped_offsets ") ||
            without_rows(row.problem) != key) {
            continue;
        }
        const double there = static_cast<double>(number_after(row.problem, rows_word).value_or(0)) /
                             static_cast<double>(std::max<std::int64_t>(work.geometry.groups, 1));
        const auto here = static_cast<double>(work.rows);
        const double ratio = here > there ? here / there : there / here;
        if (!(ratio <= distance)) continue;
        distance = ratio;
        nearest = &row;
    }
    return nearest;
}

}  // namespace

const TunedRow* tuned_row(const std::vector<TunedRow>& rows, std::string_view device, const Workload& work) {
    const TunedRow* const exact = find_tuned(rows, device, work.key);
    if (exact != nullptr) return exact;
    if (work.grouping != Grouping::m_grouped_masked) {
        return group_alignment(work.geometry) > 1 ? row_of_exact_ends(rows, device, work) : nullptr;
    }
    const std::string key = without_hint(work.key);
    const TunedRow* nearest = nullptr;
    double distance = farthest_hint;
    for (const TunedRow& row : rows) {
        if (row.device != device || without_hint(row.problem) != key) continue;
        const auto there = static_cast<double>(expected_rows(row.problem));
        const auto here = static_cast<double>(expected_rows(work.key));
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
