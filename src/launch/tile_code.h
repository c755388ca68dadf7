// A tile as C++ source: the name by which a kernel is compiled and found.
#pragma once

#include <string>

#include "hopper/description/kernel.h"

namespace tilewright::launch {

/// "tilewright::hopper::gemm<tilewright::hopper::Kernel{.shape = {.m = 128, ...}, ...}>", with every field.
std::string kernel_expression(const hopper::Kernel& tile);

/// For people: "256x128x128 stages=4 cluster=2 multicast=b, e4m3 x e4m3, 1x128 x 128x128, fast".
std::string describe(const hopper::Kernel& tile);

/// The program of which this expression is an instantiation.
inline constexpr const char* kernel_source = "#include \"hopper/gemm.h\"\n#include \"hopper/ptx/ptx_sm90.h\"\n";

}  // namespace tilewright::launch
