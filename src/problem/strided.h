// Which addresses strided tensors touch: exact answers to "do two elements share memory".
#pragma once

#include <tilewright/tensor.h>

namespace tilewright::validation {

/// Whether two elements of the tensor have one address. Needs sound strides.
bool overlaps_itself(const Tensor& tensor);

/// Some byte belongs to both. Exact for interleaved views of one buffer too; only strides so odd that the search
/// passes a million steps count as an overlap. Needs sound strides and data.
bool overlap(const Tensor& x, const Tensor& y);

}  // namespace tilewright::validation
