// The tiles that the planner considers: a fixed list, legal or not, so that `explain` can say why one is not.
#pragma once

#include <vector>

#include "hopper/description/kernel.h"

namespace tilewright::planner {

/// All of them, with all other fields from `shapeless`.
std::vector<hopper::Kernel> candidates(const hopper::Kernel& shapeless);

}  // namespace tilewright::planner
