// Validating a call again whose shapes are known to be right.
#pragma once

#include <tilewright/problem.h>

#include <vector>

namespace tilewright {

/// What `validate` finds in a problem that differs from a valid one in addresses and alpha only. Allocates nothing
/// where nothing is wrong and tensors have no gaps that hold others.
std::vector<Finding> validate_addresses(const Problem& problem, Backend backend);

}  // namespace tilewright
