#include "exchange.h"

namespace nb = nanobind;

namespace tilewright::python {
namespace {

struct Version {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
};

constexpr std::uint64_t read_only_flag = 1;

}  // namespace

/// DLManagedTensorVersioned. Source of this and of Exchange: dlpack.h, 1.2.
struct ManagedTensor {
    Version version;
    void* context = nullptr;
    void (*deleter)(ManagedTensor*) = nullptr;
    std::uint64_t flags = 0;
    // DLTensor
    char* data = nullptr;
    std::int32_t device_type = 0;
    std::int32_t device_id = 0;
    std::int32_t dimensions = 0;
    nb::dlpack::dtype type{};
    std::int64_t* shape = nullptr;
    std::int64_t* strides = nullptr;  // null: rows one after another
    std::uint64_t byte_offset = 0;
};

namespace {

/// The beginning of DLPackExchangeAPI.
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

/// Looked up every time: a kept type would keep all that its methods see.
const Exchange* exchange_of(nb::handle type) {
    static PyObject* const attribute = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    const nb::object capsule = nb::steal(PyObject_GetAttr(type.ptr(), attribute));
    const auto* api = !capsule.is_valid()
                          ? nullptr
                          : static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (api == nullptr) PyErr_Clear();
    return api != nullptr && api->version.major == 1 ? api : nullptr;
}

}  // namespace

BorrowedTensor::~BorrowedTensor() {
    if (lent_ != nullptr && lent_->deleter != nullptr) lent_->deleter(lent_);
}

bool BorrowedTensor::is_read_only() const { return (lent_->flags & read_only_flag) != 0; }
nb::dlpack::dtype BorrowedTensor::dtype() const { return lent_->type; }
const void* BorrowedTensor::data() const { return lent_->data + lent_->byte_offset; }
std::size_t BorrowedTensor::ndim() const { return static_cast<std::size_t>(lent_->dimensions); }
std::int64_t BorrowedTensor::shape(std::size_t dimension) const { return lent_->shape[dimension]; }
int BorrowedTensor::device_type() const { return lent_->device_type; }
int BorrowedTensor::device_id() const { return lent_->device_id; }

std::int64_t BorrowedTensor::stride(std::size_t dimension) const {
    if (lent_->strides != nullptr) return lent_->strides[dimension];
    std::int64_t stride = 1;
    for (std::size_t i = dimension + 1; i < ndim(); ++i) stride *= lent_->shape[i];
    return stride;
}

BorrowedTensor borrow(nb::handle array) {
    const Exchange* api = exchange_of(array.type());
    if (api == nullptr) return {};
    ManagedTensor* tensor = nullptr;
    if (api->from_python(array.ptr(), &tensor) != 0 || tensor == nullptr) {
        PyErr_Clear();
        return {};
    }
    BorrowedTensor lent(tensor);
    return tensor->version.major == 1 ? std::move(lent) : BorrowedTensor();
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
