// Weights of 4 and 8 bits that are integers: known by name, so that they are refused for what they are.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "safetensors/schemes.h"

namespace tilewright::safetensors {
namespace {

/// A publisher's name for the weights of module P, and names next to it of which one at least is there.
struct IntegerScheme {
    const char* weights;  // what follows P
    const char* what;
    std::array<const char*, 4> others;
    bool alone;  // also without any of these
};
constexpr std::array integer_schemes{
    IntegerScheme{".qweight", "integers of GPTQ", {".g_idx"}, false},
    IntegerScheme{".qweight", "integers of AWQ or GPTQ", {".qzeros", ".scales"}, true},
    IntegerScheme{".weight_packed", "packed integers of compressed-tensors", {".weight_scale", ".weight_shape"}, true},
    IntegerScheme{".weight", "int8 of bitsandbytes", {".SCB"}, false},
    IntegerScheme{".weight", "4 bits of bitsandbytes", {".weight.absmax", ".weight.quant_map"}, false},
    IntegerScheme{".weight", "packed values of MLX", {".scales", ".biases"}, false},
    IntegerScheme{".W_q", "integers of HQQ", {".meta", ".scale", ".zero"}, true},
    IntegerScheme{".weight._data", "values of Quanto", {".weight._scale", ".weight._shift"}, true},
    IntegerScheme{".weight", "integers", {".weight_zero_point", ".weight_scale", ".weight_scale_inv"}, true}};

bool is_integer(const Named& tensor) {
    return std::ranges::any_of(std::array{"I32", "U32", "I64", "U8", "I8", "I16", "U16"},
                               [&](const char* dtype) { return is(&tensor, dtype); });
}

}  // namespace

std::optional<Candidate> integer_weights(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                         const std::string& name, const Named& values) {
    if (!is_integer(values) || values.stored.shape.size() < 2) return std::nullopt;
    for (const IntegerScheme& scheme : integer_schemes) {
        const auto module = stem(name, scheme.weights);
        if (!module) continue;
        StoredMatrix matrix{.name = name, .values = &values};
        std::vector<std::string> there;
        for (const char* other : scheme.others) {
            const Named* const tensor = other == nullptr ? nullptr : checkpoint.find(*module + other);
            if (tensor == nullptr) continue;
            there.push_back(tensor->stored.name);
            matrix.companions.push_back(tensor);
        }
        if (there.empty() && !scheme.alone) continue;
        const std::string with = there.empty() ? "" : fmt::format(" with {}", fmt::join(there, " and "));
        const std::string said = config.words.empty() ? "" : "config.json says " + config.words;
        return Candidate{.matrix = matrix,
                         .finding = Finding{name, fmt::format("{}{}, {}", described(values), with, scheme.what),
                                            "fp8 or FP4 weights", said}};
    }
    return std::nullopt;
}

}  // namespace tilewright::safetensors
