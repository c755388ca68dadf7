#include "stream.h"

#include "exchange.h"

#include <cstdint>

namespace tilewright::python {
namespace {

void* as_stream(nb::handle address) { return reinterpret_cast<void*>(integer(address, "stream", 0)); }

void* given_stream(nb::handle stream) {
    if (nb::isinstance<nb::int_>(stream)) return as_stream(stream);
    for (const char* attribute : {"cuda_stream", "ptr"}) {  // torch; cupy
        if (nb::hasattr(stream, attribute)) return as_stream(stream.attr(attribute));
    }
    // (version, address), as NVIDIA's cuda.core defines it
    if (nb::hasattr(stream, "__cuda_stream__")) return as_stream(nb::object(stream.attr("__cuda_stream__")())[1]);
    refuse("stream", class_name(stream), "an address, or a stream of torch, cupy or cuda.core");
}

}  // namespace

void* stream_of(const Call& call, nb::handle given) {
    if (given.is_valid()) return given_stream(given);
    const DeviceId device = call.problem.d.device;
    if (device.kind != DeviceId::Kind::cuda) return nullptr;
    if (const std::optional<void*> stream = exchanged_stream(call.result, device.index)) return *stream;
    return as_stream(arrays_module().attr("current_stream")(call.result, device.index));
}

void* stream_of(const ArrayView& array, nb::handle given) {
    if (!given.is_none()) return given_stream(given);
    const DeviceId device = array.tensor.device;
    if (device.kind != DeviceId::Kind::cuda) return nullptr;
    if (const std::optional<void*> stream = exchanged_stream(array.source, device.index)) return *stream;
    return as_stream(arrays_module().attr("current_stream")(array.source, device.index));
}

}  // namespace tilewright::python
