// Tensor maps, encoded by the driver.
#pragma once

#include "cuda/driver.h"
#include "hopper/arguments.h"

namespace tilewright::cuda {

/// Throws Error if the driver refuses the description. `name` is the operand's.
void encode(const Driver& driver, int device, const hopper::TensorMapDescription& description, const char* name,
            hopper::TensorMap& map);

}  // namespace tilewright::cuda
