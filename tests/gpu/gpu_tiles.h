// The tiles that tests run on a GPU: those of the pack, and more that swap operands or split k.
#pragma once

#include <vector>

#include "hopper/description/kernel.h"

namespace tilewright::test {

std::vector<hopper::Kernel> gpu_tiles();

}  // namespace tilewright::test
