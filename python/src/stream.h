// The CUDA stream of a call.
#pragma once

#include "call.h"

namespace tilewright::python {

/// `given` if it is not null: an address, or an object of torch, cupy or any that has __cuda_stream__. Else the one
/// that the library of `out` works on now; null, the default stream, for libraries that do not tell. Null on the CPU.
void* stream_of(const Call& call, nb::handle given);

/// The same for an array of which new ones are made; None is not given.
void* stream_of(const ArrayView& array, nb::handle given);

}  // namespace tilewright::python
