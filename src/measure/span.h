// The memory that a strided tensor spans, for copies to and from a GPU.
#pragma once

#include <tilewright/tensor.h>

#include <cstddef>

namespace tilewright::measure {

/// From the first element to the last, gaps between them included.
std::size_t span_bytes(const Tensor& tensor);

}  // namespace tilewright::measure
