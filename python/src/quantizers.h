// Quantisers, dequantisers and the conversion of numbers to codes, bound.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_quantizers(nanobind::module_& m);

}  // namespace tilewright::python
