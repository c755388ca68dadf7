// The kernels that this build's tests run on the emulator. A program of the build (list_kernels.cpp) writes the list of
// instantiations. It reads the matrix and the list of kernels that ship, so that none can be forgotten.
#pragma once

#include "emulator/matrix.h"
#include "hopper/arguments.h"
#include "hopper/description/design.h"
#include "sample.h"

#include <string_view>
#include <vector>

namespace tilewright::tests {

struct EmulatedKernel {
    hopper::Design tile;
    void (*run)(const hopper::AllArguments&);
};

/// Those that ship and those of the matrix. Under sanitizers, the lines of the matrix with the tag `sanitize`.
const std::vector<EmulatedKernel>& emulated_kernels();

/// The kernel, without a function to run where this build does not have it.
EmulatedKernel emulated(const hopper::Kernel& tile);
EmulatedKernel emulated(const KernelRow& row);

struct RowKernel {
    KernelRow row;
    EmulatedKernel kernel;
};

/// The kernels that lines of the matrix spell so up to their calls. Builds with sanitizers leave out those that are not
/// in the sample; where another build has no such kernel, std::invalid_argument is thrown.
std::vector<RowKernel> emulated(const std::vector<std::string_view>& texts);

/// The kernels of one of the generated files.
template <int part>
void add_kernels(std::vector<EmulatedKernel>& list);

}  // namespace tilewright::tests
