// Which format the elements of an array have: that of its dtype, or what the call asks for where the dtype has too
// little.
#pragma once

#include "array.h"

namespace tilewright::python {

/// `known`: the format that the registry has for the array's dtype. Throws Error about role.operand.
Format element_format(nb::dlpack::dtype type, std::optional<Format> known, nb::handle array, const ArrayRole& role);

/// bf16, f16 or f32 by its name, its full name, or a dtype of numpy, ml_dtypes or torch, which need not be imported.
/// Throws Error about `argument`.
Format output_format(nb::handle value, const char* argument);

/// As messages name it: "float64", "torch.float32", or the class of an array without a dtype.
std::string dtype_name(nb::handle array);

/// The elements that the role accepts, for messages.
std::string expected_elements(const ArrayRole& role);

}  // namespace tilewright::python
