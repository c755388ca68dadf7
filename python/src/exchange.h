// DLPack's C exchange: tensors of libraries that offer it (torch from 2.9 on) come in without a call of Python code.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

namespace tilewright::python {

/// A capsule with the tensor, or an invalid object if the type of `array` does not offer the exchange or refuses.
nanobind::object exchanged(nanobind::handle array);

/// The stream that the library of `array` works on now, on this CUDA device; nothing if its type does not offer that.
std::optional<void*> exchanged_stream(nanobind::handle array, int device);

}  // namespace tilewright::python
