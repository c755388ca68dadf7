// The kernels that pack weights. They are apart from the other kernels because hopper::scale_lanes has two meanings. No
// file can include both the headers of packers and those of layers.
#pragma once

#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

#include <vector>

namespace tilewright::tests {

/// The functions with one template parameter.
struct Packers {
    using Function = void (*)(hopper::PackArguments);

    hopper::PackSpec spec{};
    Function tiles = nullptr;
    Function heads = nullptr;
    Function rest = nullptr;
    Function scales = nullptr;  // may be null
};

std::vector<Packers> packers();

}  // namespace tilewright::tests
