#include "problem/findings.h"

#include <algorithm>

namespace tilewright::validation {

std::string either(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
        text += words[i];
    }
    return text;
}

std::array<NamedTensor, 10> tensors_of(const Problem& p) {
    return {{{"d", &p.d},
             {"c", &p.c},
             {"bias", &p.bias},
             {"a.values", &p.a.values},
             {"a.scales", &p.a.scales},
             {"a.tensor_scale", &p.a.tensor_scale},
             {"b.values", &p.b.values},
             {"b.scales", &p.b.scales},
             {"b.tensor_scale", &p.b.tensor_scale},
             {"groups.sizes", &p.groups.sizes}}};
}

bool has_sound_shape(const Tensor& tensor) {
    return tensor.given() && tensor.shape.rank() <= Dims::capacity &&
           std::all_of(tensor.shape.begin(), tensor.shape.end(), [](std::int64_t size) { return size >= 0; });
}

bool has_sound_strides(const Tensor& tensor) {
    if (!has_sound_shape(tensor) || tensor.strides.rank() != tensor.shape.rank()) return false;
    const std::int64_t element = std::max(bits(tensor.format) / 4, 1);  // half bytes; unknown formats have no bits
    std::int64_t gapless = element;
    std::int64_t span = element;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        const std::int64_t size = std::max<std::int64_t>(tensor.shape[i], 1);
        std::int64_t step = 0;
        if (tensor.strides[i] < 0 || __builtin_mul_overflow(gapless, size, &gapless)) return false;
        if (size == 1) continue;
        if (__builtin_mul_overflow(tensor.strides[i], element, &step) ||
            __builtin_mul_overflow(step, size - 1, &step) || __builtin_add_overflow(span, step, &span)) {
            return false;
        }
    }
    return std::max(gapless, span) < std::int64_t{1} << 61;
}

bool is_empty(const Tensor& tensor) {
    return std::any_of(tensor.shape.begin(), tensor.shape.end(), [](std::int64_t size) { return size == 0; });
}

bool has_memory(const Tensor& tensor) {
    return tensor.data != nullptr && has_sound_strides(tensor) && !is_empty(tensor);
}

}  // namespace tilewright::validation
