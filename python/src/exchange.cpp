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
    KeptExchange::Description tensor{};
};

/// The beginning of DLPackExchangeAPI.
struct Exchange {
    Version version;
    Exchange* previous = nullptr;
    int (*allocate)(KeptExchange::Description* like, ManagedTensor** out, void* context,
                    void (*report)(void* context, const char* kind, const char* message)) = nullptr;
    int (*from_python)(void* object, ManagedTensor** out) = nullptr;
    void (*to_python)() = nullptr;
    int (*look_at)(void* object, KeptExchange::Description* out) = nullptr;
    int (*current_stream)(std::int32_t device_type, std::int32_t device, void** out) = nullptr;
};

namespace {

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
nb::dlpack::dtype BorrowedTensor::dtype() const { return lent_->tensor.type; }
const void* BorrowedTensor::data() const { return lent_->tensor.address(); }
std::size_t BorrowedTensor::ndim() const { return static_cast<std::size_t>(lent_->tensor.dimensions); }
std::int64_t BorrowedTensor::shape(std::size_t dimension) const { return lent_->tensor.shape[dimension]; }
int BorrowedTensor::device_type() const { return lent_->tensor.device_type; }
int BorrowedTensor::device_id() const { return lent_->tensor.device_id; }

std::int64_t BorrowedTensor::stride(std::size_t dimension) const {
    if (lent_->tensor.strides != nullptr) return lent_->tensor.strides[dimension];
    std::int64_t stride = 1;
    for (std::size_t i = dimension + 1; i < ndim(); ++i) stride *= lent_->tensor.shape[i];
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

KeptExchange::KeptExchange(nb::handle type) : exchange_(exchange_of(type)) {}

bool KeptExchange::is_offered() const {
    return exchange_ != nullptr && exchange_->look_at != nullptr && exchange_->allocate != nullptr &&
           exchange_->current_stream != nullptr;
}

bool KeptExchange::look_at(nb::handle array, Description& out) const {
    if (exchange_->look_at(array.ptr(), &out) == 0) return true;
    PyErr_Clear();
    return false;
}

BorrowedTensor KeptExchange::bytes(std::int64_t count, std::int32_t device_type, std::int32_t device) const {
    Description like{
        .device_type = device_type, .device_id = device, .dimensions = 1, .type = nb::dtype<std::uint8_t>()};
    like.shape = &count;
    ManagedTensor* made = nullptr;
    const auto ignore = [](void*, const char*, const char*) {};
    if (exchange_->allocate(&like, &made, nullptr, ignore) != 0 || made == nullptr) return {};
    return BorrowedTensor(made);
}

void* KeptExchange::stream(int device) const {
    void* stream = nullptr;
    if (exchange_->current_stream(cuda_device, device, &stream) != 0) throw nb::python_error();
    return stream;
}

}  // namespace tilewright::python
