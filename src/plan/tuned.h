// Measured choices that override the model: tables of (device, problem, tile, date, command). Masked groups:
// `expected_m` is a hint, and callers pass anything from half to twice the mean of the later row counts. The choice
// must be good for all of these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/planned_tile.h"
#include "plan/workload.h"

namespace tilewright::planner {

struct TunedRow {
    std::string device;
    std::string problem;  // the `key` of a Workload
    PlannedTile tile;
    std::string date;
    std::string command;
};

/// Throws std::logic_error, which names a wrong line.
std::vector<TunedRow> parse_tuned(std::string_view text);

/// The rows that ship with the library.
const std::vector<TunedRow>& tuned_rows();

/// Callers pass a fifth more than the mean of the rows that they expect, as DeepGEMM's do.
inline constexpr double hint_over_mean = 1.2;

/// The largest ratio of a hint and a tuned row's hint. Tuned rows are measured with a hint for all rows, and callers
/// who expect too few may pass the mean itself.
inline constexpr double farthest_hint = 2 * hint_over_mean;

/// The last row for this device and problem. Masked groups without one: the row of the nearest hint within a factor of
/// `farthest_hint`. Null if there is none.
const TunedRow* tuned_row(const std::vector<TunedRow>& rows, std::string_view device, const Workload& work);

/// The work with the row counts that half to twice its hint may mean, in nine steps on a logarithmic scale. With fewer
/// steps the choice falls into the gaps between whole waves. Regret was over 3 % in 15 of 180 cases with fewer, and in
/// 8 with nine.
std::vector<Workload> expectations(const Workload& work);

}  // namespace tilewright::planner
