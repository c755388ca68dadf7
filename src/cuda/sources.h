// The device code as text: every header that kernels include, embedded in the library when it is built.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace tilewright::cuda {

struct SourceFile {
    const char* name;  // the name in includes: "hopper/description/kernel.h"
    const char* text;
};

std::span<const SourceFile> device_sources();

/// The headers that a text includes, and those that they include, each once. A kernel depends on no others, so that a
/// change of a quantizer compiles no matrix product again.
std::vector<const SourceFile*> included(std::string_view text);

}  // namespace tilewright::cuda
