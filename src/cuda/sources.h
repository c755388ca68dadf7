// The device code as text: every header that kernels include, embedded in the library when it is built.
#pragma once

#include <span>

namespace tilewright::cuda {

struct SourceFile {
    const char* name;  // the name in includes: "hopper/tile/tile.h"
    const char* text;
};

std::span<const SourceFile> device_sources();

}  // namespace tilewright::cuda
