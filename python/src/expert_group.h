// Layers of experts over ranks for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_expert_group(nanobind::module_& m);

}  // namespace tilewright::python
