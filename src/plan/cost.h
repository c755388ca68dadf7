// The predicted time of a legal tile, term by term.
#pragma once

#include "plan/model.h"
#include "plan/spread.h"

namespace tilewright::planner {

Cost cost(const hopper::Tile& tile, const Work& work, const DeviceDescription& device,
          const Model& model = fitted_model);

/// Bytes that every implementation moves through HBM: operands, scales and C read once, D written once.
double compulsory_bytes(const Work& work);

}  // namespace tilewright::planner
