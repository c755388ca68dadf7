// Calls of a linear layer on torch's tensors. What follows from shapes and options is found once, and serves all later
// calls that differ only in addresses.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_linear_plan(nanobind::module_& m);

}  // namespace tilewright::python
