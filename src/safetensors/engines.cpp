#include "safetensors/engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "safetensors/quantization_config.h"

namespace tilewright::safetensors {
namespace {

/// The tensors and the `quant_method` of a format that engines load.
struct EngineFormat {
    const char* scheme;
    std::array<std::string_view, 2> formats;
    const char* method;
    const char* engines;
};

constexpr std::array engine_formats{
    EngineFormat{"deepseek", {"128x128"}, "fp8", "transformers, vLLM and SGLang, and callers of deep_gemm"},
    EngineFormat{"deepseek-v4", {"mxfp4", "128x128.ue8m0"}, "fp8", "transformers, vLLM and SGLang"},
    EngineFormat{"gpt-oss", {"mxfp4"}, "mxfp4", "transformers, vLLM and SGLang"},
};

bool is_quantised(const StoredMatrix& matrix) { return matrix.scheme != "unquantised"; }

/// Scales may be bf16: engines copy them to f32.
bool is_in(const EngineFormat& format, const StoredMatrix& matrix) {
    const std::string text = matrix.format();
    const std::string_view as_written = std::string_view(text).substr(0, text.find(", scales"));
    return matrix.scheme == format.scheme && std::ranges::find(format.formats, as_written) != format.formats.end();
}

constexpr const char* advice = "`tilewright convert --as fp8` writes one that they load";

}  // namespace

std::string engine_words(const Checkpoint& checkpoint, const StoredMatrices& found) {
    if (!found.unreadable.empty()) return fmt::format("none: {} matrices cannot be read", found.unreadable.size());
    const auto first = std::ranges::find_if(found.matrices, is_quantised);
    if (first == found.matrices.end()) return "transformers, which quantizes the experts; nothing is quantized here";
    if (first->scheme == "tilewright" || first->scheme == "packed") {
        return fmt::format("none: {} has the names of Tilewright's own programs", first->name);
    }
    for (const EngineFormat& format : engine_formats) {
        if (!is_in(format, *first)) continue;
        const auto other = std::ranges::find_if(
            found.matrices, [&](const StoredMatrix& matrix) { return is_quantised(matrix) && !is_in(format, matrix); });
        if (other != found.matrices.end()) {
            return fmt::format("none: {} is {}, and {} is {}. {}", first->name, first->format(), other->name,
                               other->format(), advice);
        }
        const std::string method = quantization_config(checkpoint).method;
        if (method == format.method) return format.engines;
        return fmt::format("none: quant_method is '{}' in config.json, and they expect '{}'. {}", method, format.method,
                           advice);
    }
    return fmt::format("none: {} is {} by the names of {}. {}", first->name, first->format(), first->scheme, advice);
}

}  // namespace tilewright::safetensors
