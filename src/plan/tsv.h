// Tables of the planner: tab-separated text with a header line; lines that begin with '#' are comments.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::planner {

struct TsvRow {
    int line = 0;  // counted from 1
    std::vector<std::string_view> cells;
};

struct TsvProblem {
    int line = 0;  // 0: the table as a whole
    std::string given;
    std::string expected;

    /// "line 7: got 3 cells; expected 5 (device, problem, ...), separated by tabs"
    std::string text() const;
};

struct Tsv {
    std::vector<TsvRow> rows;  // rows with a cell for each column
    std::vector<TsvProblem> problems;
};

/// Cells point into `text`. A header other than `columns` is a problem, and so is a row with more or fewer cells.
Tsv parse_tsv(std::string_view text, const std::vector<std::string_view>& columns);

std::vector<std::string_view> split(std::string_view text, char separator);

/// Text of a file, short and printable, for a message.
std::string shown(std::string_view text);

// Those of src/plan/devices and src/plan/tuned, embedded at build time.
extern const std::array<std::string_view, 8> device_tables;  // the H200's first
extern const std::string_view tuned_table;

}  // namespace tilewright::planner
