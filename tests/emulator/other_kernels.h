// The kernels that are not products and that the emulator runs, found by the expression under which NVRTC would compile
// them.
#pragma once

#include "emulator/emulator.h"
#include "launch/other_kernels.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tilewright::tests {

using OtherFunctions = std::map<std::string, std::function<void(const launch::OtherLaunch&)>>;

template <class Kernel>
void add(OtherFunctions& functions, const Kernel& kernel, void (*function)(typename Kernel::Arguments)) {
    functions[kernel_expression(kernel)] = [function](const launch::OtherLaunch& launch) {
        function(launch.of<Kernel>().arguments);
    };
}

void add_quantizers(OtherFunctions& functions);
void add_kernels_of_layers(OtherFunctions& functions);

/// Runs a launch, if it has blocks. Throws emulator::Error, also where its kernel is missing, which is a test's
/// mistake.
void run_on_emulator(const launch::OtherLaunch& launch, std::uint64_t seed = 0, emulator::Counts* counts = nullptr);
/// Runs launches one after another.
void run_on_emulator(const std::vector<launch::OtherLaunch>& launches, std::uint64_t seed = 0);

}  // namespace tilewright::tests
