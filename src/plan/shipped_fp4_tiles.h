// The kernels for packed weights that ship.
#pragma once

#include <vector>

#include "plan/shipped_kernels.h"

namespace tilewright::planner {

/// Packed for fp8 and bf16, with wide rows and without.
std::vector<ShippedTile> shipped_fp4_tiles();

}  // namespace tilewright::planner
