// Layers of experts for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_moe(nanobind::module_& m);

}  // namespace tilewright::python
