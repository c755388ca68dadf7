// The kernel of a line of the matrix: the one place that knows how a kernel's template argument is spelled.
#pragma once

#include "emulator/matrix.h"
#include "hopper/description/design.h"

#include <vector>

namespace tilewright::tests {

/// As the planner makes it of a call with the row's recipe, groups, layout and operands, with the row's tile. Throws
/// std::invalid_argument if no kernel can be built.
hopper::Kernel tile_of(const KernelRow& row);

/// A shipped kernel in the words of the matrix, without calls.
KernelRow row_of(const hopper::Kernel& shipped);

/// The kernels that this build's tests run, each once: those of the matrix and all that ship. Builds with sanitizers
/// have only those of the matrix with the tag `sanitize`.
std::vector<hopper::Kernel> emulated_tiles(const Matrix& matrix);

}  // namespace tilewright::tests
