// Masked groups: `expected_m` is a hint, and callers pass anything from half to twice the mean of the rows that there
// will be. What is chosen must be good for all of these. And the tuned rows that hold for a problem besides its own.
#pragma once

#include <vector>

#include "plan/tuned.h"
#include "plan/workload.h"

namespace tilewright::planner {

/// Callers say a fifth more than the mean of the rows that they expect, as DeepGEMM's do.
inline constexpr double hint_over_mean = 1.2;

/// How far a hint for half the rows is from a row's, which is measured with a hint for all of them: callers who expect
/// too few may say the mean itself.
inline constexpr double farthest_hint = 2 * hint_over_mean;

/// The last row for this device and problem. Where there is none: for masked groups that of the nearest hint within a
/// factor of `farthest_hint`, for groups that begin aligned that of about the same rows by exact ends. Null if there is
/// neither.
const TunedRow* tuned_row(const std::vector<TunedRow>& rows, std::string_view device, const Workload& work);

/// The work with the rows that half to twice its hint would speak of, nine times evenly spaced on a logarithmic scale:
/// with fewer, the choice falls into the gaps between whole waves (regret over 3 % in 15 of 180 cases, with nine in 8).
std::vector<Workload> expectations(const Workload& work);

}  // namespace tilewright::planner
