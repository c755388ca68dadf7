// The quantisers of a training step for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_token_quantizers(nanobind::module_& m);

}  // namespace tilewright::python
