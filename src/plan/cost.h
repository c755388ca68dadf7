// The predicted time of a legal tile, term by term.
#pragma once

#include "plan/model.h"
#include "plan/tile_distribution.h"

namespace tilewright::planner {

/// The cost of the product, without what is written into the workspace first, because no choice depends on that.
Cost cost(const hopper::Kernel& kernel, const Workload& work, const DeviceDescription& device);

/// This cost with other constants, for fitting.
Cost cost(const hopper::Kernel& kernel, const Workload& work, const DeviceDescription& device, const Model& model);

/// The same with the time and bytes of the workspace.
Cost with_workspace(Cost cost, const Workload& work, const DeviceDescription& device);

/// Bytes that every implementation moves through HBM: operands, scales and C read once, D written once.
double compulsory_bytes(const Workload& work);

/// How much of them D is.
double share_of_d(const Workload& work);

}  // namespace tilewright::planner
