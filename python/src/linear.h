// Forward and backward of a linear layer, for tilewright.torch.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_linear(nanobind::module_& m);

}  // namespace tilewright::python
