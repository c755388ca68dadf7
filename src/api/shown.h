// A tensor's shape in a message.
#pragma once

#include <tilewright/tensor.h>

#include <string>

namespace tilewright {

inline std::string shown(const Tensor& tensor) { return tensor.given() ? to_string(tensor.shape) : "nothing"; }

}  // namespace tilewright
