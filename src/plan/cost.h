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

/// Whether the stores of the last tiles count where memory is the bound: D is a large part of the bytes. They do not
/// count:
/// - With C, because small tiles are slower than others then (docs/experiments/014-fewest-bytes.md).
/// - For groups. If a few groups have all rows, compute is the bound, and small tiles are slow.
bool last_stores_count(const Workload& work);

}  // namespace tilewright::planner
