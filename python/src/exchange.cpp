#include "exchange.h"

#include <cstdint>

namespace nb = nanobind;

namespace tilewright::python {
namespace {

struct Version {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
};

/// The part of DLManagedTensorVersioned that its owner needs.
struct ManagedTensor {
    Version version;
    void* context = nullptr;
    void (*deleter)(ManagedTensor*) = nullptr;
};

/// The beginning of DLPackExchangeAPI. Source of both: dlpack.h, 1.2.
struct Exchange {
    Version version;
    Exchange* previous = nullptr;
    void (*allocate)() = nullptr;
    int (*from_python)(void* object, ManagedTensor** out) = nullptr;
    void (*to_python)() = nullptr;
    void (*view_from_python)() = nullptr;
    int (*current_stream)(std::int32_t device_type, std::int32_t device, void** out) = nullptr;
};

constexpr std::int32_t cuda_device = 2;  // kDLCUDA

constexpr const char* tensor_capsule = "dltensor_versioned";

/// Whoever takes the tensor out of the capsule takes this destructor away.
void release_capsule(PyObject* capsule) {
    auto* tensor = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule, tensor_capsule));
    if (tensor != nullptr && tensor->deleter != nullptr) tensor->deleter(tensor);
}

/// Looked up every time: a kept type would keep all that its methods see.
const Exchange* exchange_of(nb::handle type) {
    if (!nb::hasattr(type, "__dlpack_c_exchange_api__")) return nullptr;
    const nb::object capsule = type.attr("__dlpack_c_exchange_api__");
    const auto* api = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (api == nullptr) PyErr_Clear();
    return api != nullptr && api->version.major == 1 ? api : nullptr;
}

}  // namespace

nb::object exchanged(nb::handle array) {
    const Exchange* api = exchange_of(array.type());
    if (api == nullptr) return {};
    ManagedTensor* tensor = nullptr;
    if (api->from_python(array.ptr(), &tensor) != 0 || tensor == nullptr) {
        PyErr_Clear();
        return {};
    }
    return nb::steal(PyCapsule_New(tensor, tensor_capsule, release_capsule));
}

std::optional<void*> exchanged_stream(nb::handle array, int device) {
    const Exchange* api = exchange_of(array.type());
    if (api == nullptr || api->current_stream == nullptr) return std::nullopt;
    void* stream = nullptr;
    if (api->current_stream(cuda_device, device, &stream) == 0) return stream;
    PyErr_Clear();
    return std::nullopt;
}

}  // namespace tilewright::python
