// Calls of a linear layer on torch's tensors. All that follows from shapes and options is found once, and serves the
// later calls that differ only in addresses.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_linear_plan(nanobind::module_& m);

}  // namespace tilewright::python
