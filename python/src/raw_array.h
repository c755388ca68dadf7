// Memory by its address, as an array.
#pragma once

#include "array.h"

namespace tilewright::python {

/// The tensor, if its elements are what the role asks for; throws Error about role.operand otherwise.
Tensor raw_tensor(const RawArray& array, const ArrayRole& role);

void bind_raw_arrays(nb::module_& m);

}  // namespace tilewright::python
