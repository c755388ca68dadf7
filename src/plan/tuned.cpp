#include "plan/tuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "plan/tables.h"
#include "plan/tsv.h"

namespace tilewright::planner {
namespace {

bool is_date(std::string_view text) {
    if (text.size() != 10) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool dash = i == 4 || i == 7;
        if (dash ? text[i] != '-' : std::isdigit(static_cast<unsigned char>(text[i])) == 0) return false;
    }
    return true;
}

/// The mistake in a row; empty when the row was added.
std::string add_row(const TsvRow& row, std::vector<TunedRow>& rows) {
    const std::optional<PlannedTile> tile = parse_tile(row.cells[2]);
    if (row.cells[0].empty()) return "the device is empty";
    if (row.cells[1].empty()) return "the problem is empty";
    if (!tile)
        return fmt::format("'{}' is not a tile; expected one such as '{}'", row.cells[2],
                           name(PlannedTile{.cluster = {.size = 2}}));
    if (!is_date(row.cells[3])) return fmt::format("'{}' is not a date; expected one such as 2026-11-21", row.cells[3]);
    if (row.cells[4].empty()) return "the command that repeats the measurement is empty";
    rows.push_back({.device = std::string(row.cells[0]),
                    .problem = std::string(row.cells[1]),
                    .tile = *tile,
                    .date = std::string(row.cells[3]),
                    .command = std::string(row.cells[4])});
    return "";
}

}  // namespace

TunedTable parse_tuned(std::string_view text) {
    const Tsv tsv = parse_tsv(text, {"device", "problem", "tile", "date", "command"});
    TunedTable table;
    for (const TsvProblem& problem : tsv.problems) table.problems.push_back(problem.text());
    for (const TsvRow& row : tsv.rows) {
        const std::string problem = add_row(row, table.rows);
        if (!problem.empty()) table.problems.push_back(fmt::format("line {}: {}", row.line, problem));
    }
    return table;
}

const std::vector<TunedRow>& tuned_rows() {
    static const std::vector<TunedRow> all = [] {
        std::vector<TunedRow> rows;
        for (std::string_view text : tuned_tables) {
            TunedTable table = parse_tuned(text);
            if (!table.problems.empty()) {
                throw std::logic_error(fmt::format("src/plan/tuned: {}", fmt::join(table.problems, "; ")));
            }
            rows.insert(rows.end(), table.rows.begin(), table.rows.end());
        }
        return rows;
    }();
    return all;
}

const TunedRow* find_tuned(const std::vector<TunedRow>& rows, std::string_view device, std::string_view problem) {
    const auto found = std::find_if(rows.rbegin(), rows.rend(), [&](const TunedRow& row) {
        return row.device == device && row.problem == problem;
    });
    return found == rows.rend() ? nullptr : &*found;
}

}  // namespace tilewright::planner
