// Packed weights, bound.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_packing(nanobind::module_& m);

}  // namespace tilewright::python
