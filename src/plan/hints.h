// Masked groups: `expected_m` is a hint, and callers pass anything from half to twice the mean of the rows that there
// will be. What is chosen must be good for all of these. And the tuned rows that hold for a problem besides its own.
#pragma once

#include <vector>

#include "plan/tuned.h"
#include "plan/workload.h"

namespace tilewright::planner {

/// The last row for this device and problem. Where there is none: for masked groups that of the nearest hint within a
/// factor of 2.4, for groups that begin aligned that of about the same rows by exact ends. Null if there is neither.
const TunedRow* tuned_row(const std::vector<TunedRow>& rows, std::string_view device, const Workload& work);

/// The work with the rows that half to twice its hint would speak of, nine times evenly spaced on a logarithmic scale:
/// with fewer, the choice falls into the gaps between whole waves (regret over 3 % in 15 of 180 cases, with nine in 8).
std::vector<Workload> expectations(const Workload& work);

}  // namespace tilewright::planner
