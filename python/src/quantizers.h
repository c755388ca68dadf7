// Quantisers, dequantisers and the encoding of plain numbers, bound.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

void bind_quantizers(nanobind::module_& m);

}  // namespace tilewright::python
