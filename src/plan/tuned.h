// Measured choices that override the model: tables of (device, problem, tile, date, command).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/planned_tile.h"

namespace tilewright::planner {

struct TunedRow {
    std::string device;
    std::string problem;  // the `key` of a Workload
    PlannedTile tile;
    std::string date;
    std::string command;
};

struct TunedTable {
    std::vector<TunedRow> rows;
    std::vector<std::string> problems;  // bad lines, left out of `rows`
};

TunedTable parse_tuned(std::string_view text);

/// The rows that ship with the library.
const std::vector<TunedRow>& tuned_rows();

/// The last row for this device and problem; null if there is none.
const TunedRow* find_tuned(const std::vector<TunedRow>& rows, std::string_view device, std::string_view problem);

}  // namespace tilewright::planner
