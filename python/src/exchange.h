// DLPack's C exchange: tensors of libraries that offer it (torch from 2.9 on) come in without a call of Python code.
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::python {

/// A capsule with the tensor, or an invalid object if the type of `array` does not offer the exchange or refuses.
nanobind::object exchanged(nanobind::handle array);

}  // namespace tilewright::python
