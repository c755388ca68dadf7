// The predicted time of a legal tile, term by term.
#pragma once

#include "plan/model.h"
#include "plan/tile_distribution.h"

namespace tilewright::planner {

Cost cost(const hopper::Tile& tile, const Workload& work, const DeviceDescription& device,
          const Model& model = fitted_model);

/// Bytes that every implementation moves through HBM: operands, scales and C read once, D written once.
double compulsory_bytes(const Workload& work);

/// How much of them D is.
double share_of_d(const Workload& work);

}  // namespace tilewright::planner
