#include "plan/tsv.h"

#include <fmt/format.h>

namespace tilewright::planner {

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

Tsv parse_tsv(std::string_view text, const std::vector<std::string_view>& columns) {
    Tsv table;
    const std::string header = fmt::format("'{}', separated by tabs", fmt::join(columns, " "));
    bool header_seen = false;
    int line = 0;
    for (std::string_view row : split(text, '\n')) {
        ++line;
        if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
        if (row.empty() || row.front() == '#') continue;
        std::vector<std::string_view> cells = split(row, '\t');
        if (!header_seen) {
            header_seen = true;
            if (cells == columns) continue;
            table.problems.push_back({line, fmt::format("the header '{}'", shown(row)), header});
            return table;
        }
        if (cells.size() != columns.size()) {
            table.problems.push_back(
                {line, fmt::format("{} cells", cells.size()),
                 fmt::format("{} ({}), separated by tabs", columns.size(), fmt::join(columns, ", "))});
            continue;
        }
        table.rows.push_back({line, std::move(cells)});
    }
    if (!header_seen) table.problems.push_back({0, "no header", header});
    return table;
}

std::string shown(std::string_view text) {
    constexpr std::size_t longest = 60;
    std::string result(text.substr(0, longest));
    for (char& character : result) {
        if (character < ' ' || character > '~') character = '?';
    }
    return text.size() > longest ? result + "..." : result;
}

std::string TsvProblem::text() const {
    const std::string where = line > 0 ? fmt::format("line {}: ", line) : "";
    return fmt::format("{}got {}; expected {}", where, given, expected);
}

}  // namespace tilewright::planner
