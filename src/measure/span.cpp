#include "measure/span.h"

#include <cstdint>

namespace tilewright::measure {

std::size_t span_bytes(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.shape[i] == 0) return 0;
        last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    return static_cast<std::size_t>(((last + 1) * bits(tensor.format) + 7) / 8);
}

}  // namespace tilewright::measure
