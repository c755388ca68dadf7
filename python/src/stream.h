// The CUDA stream of a call.
#pragma once

#include "call.h"

namespace tilewright::python {

/// `given` if it is not null: an address, or an object of torch, cupy or any library that has __cuda_stream__.
/// Otherwise the current stream of the library of `out`; null, the default stream, if the library does not name it.
/// Null on the CPU.
void* stream_of(const Call& call, nb::handle given);

/// The stream for new arrays like `array`. None: not given.
void* stream_of(const ArrayView& array, nb::handle given);

}  // namespace tilewright::python
