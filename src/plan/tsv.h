// Tables of the planner: tab-separated text with a header line; lines that begin with '#' are comments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilewright::planner {

struct TsvRow {
    int line = 0;  // counted from 1
    std::vector<std::string_view> cells;
};

struct Tsv {
    std::vector<TsvRow> rows;           // rows with a cell for each column
    std::vector<std::string> problems;  // "line 7: 3 cells given, 5 expected (device, problem, ...)"
};

/// Cells point into `text`. A header other than `columns` is a problem, and so is a row with more or fewer cells.
Tsv parse_tsv(std::string_view text, const std::vector<std::string_view>& columns);

std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace tilewright::planner
