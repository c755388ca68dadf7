#include "torch_state.h"

#include <optional>
#include <stdexcept>

namespace tilewright::python {
namespace {

/// Functions of torch. Never released: the interpreter may be gone by then.
class Torch {
public:
    static const Torch& get() {
        static const auto* const torch = new Torch();
        return *torch;
    }

    bool is_unobserved() const {
        return is_complete_ && is_zero(modes_) && is_zero(transforms_) && is_zero(tracing_) && forward_level() < 0;
    }
    bool records_gradients() const { return !is_zero(gradients_); }
    const KeptExchange& exchange() const { return exchange_; }

private:
    Torch() : exchange_(nb::module_::import_("torch").attr("Tensor")) {
        try {
            const nb::module_ torch = nb::module_::import_("torch");
            const nb::object functions = torch.attr("_C");
            modes_ = nb::object(functions.attr("_len_torch_dispatch_stack")).release().ptr();
            transforms_ = nb::object(functions.attr("_are_functorch_transforms_active")).release().ptr();
            tracing_ = nb::object(functions.attr("_is_tracing")).release().ptr();
            gradients_ = nb::object(torch.attr("is_grad_enabled")).release().ptr();
            forward_mode_ = nb::module_::import_("torch.autograd.forward_ad").release().ptr();
            forward_level();
            is_complete_ = exchange_.is_offered();
        } catch (const nb::python_error&) {
            is_complete_ = false;
        }
    }

    static bool is_zero(PyObject* function) {
        const nb::object result = nb::steal(PyObject_CallNoArgs(function));
        if (!result.is_valid()) throw nb::python_error();
        return result.is(Py_False) || (!result.is(Py_True) && PyLong_AsLong(result.ptr()) == 0);
    }

    /// Negative outside of forward mode.
    long forward_level() const {
        static PyObject* const name = PyUnicode_InternFromString("_current_level");
        const nb::object level = nb::steal(PyObject_GetAttr(forward_mode_, name));
        if (!level.is_valid()) throw nb::python_error();
        return PyLong_AsLong(level.ptr());
    }

    KeptExchange exchange_;
    PyObject* modes_ = nullptr;
    PyObject* transforms_ = nullptr;
    PyObject* tracing_ = nullptr;
    PyObject* gradients_ = nullptr;
    PyObject* forward_mode_ = nullptr;
    bool is_complete_ = false;
};

std::optional<Format> format_of(nb::dlpack::dtype type) {
    using Code = nb::dlpack::dtype_code;
    if (type.lanes != 1) return std::nullopt;
    switch (static_cast<Code>(type.code)) {
        case Code::Bfloat: return Format::bf16;
        case Code::Float:
            if (type.bits == 32) return Format::f32;
            return type.bits == 16 ? std::optional(Format::f16) : std::nullopt;
        case Code::Int:
            if (type.bits == 64) return Format::i64;
            return type.bits == 32 ? std::optional(Format::i32) : std::nullopt;
        case Code::UInt: return type.bits == 8 ? std::optional(Format::ue8m0) : std::nullopt;
        default: return std::nullopt;
    }
}

/// Only a view of every second element can have torch's negation bit, as `refuse_negation` says.
bool is_negated(nb::handle array, const KeptExchange::Description& seen) {
    static PyObject* const negation = PyUnicode_InternFromString("is_neg");
    for (int i = 0; i < seen.dimensions; ++i) {
        if (seen.shape[i] > 1 && seen.strides[i] % 2 != 0) return false;
    }
    PyObject* const self = array.ptr();
    const nb::object negated = nb::steal(PyObject_VectorcallMethod(negation, &self, 1, nullptr));
    if (!negated.is_valid()) throw nb::python_error();
    return negated.is(Py_True);
}

/// Everything but shape and strides.
bool describe(nb::handle array, KeptExchange::Description& seen, SeenTensor& out) {
    if (!is_usual_tensor(array) || !Torch::get().exchange().look_at(array, seen)) return false;
    if (seen.dimensions < 1 || seen.dimensions > Sizes::capacity || seen.strides == nullptr) return false;
    const std::optional<Format> format = format_of(seen.type);
    if (!format || seen.address() == nullptr) return false;
    out = {.tensor = {.data = seen.address(), .format = *format}};
    if (seen.device_type == nb::device::cuda::value) {
        out.tensor.device = {DeviceId::Kind::cuda, seen.device_id};
    } else if (seen.device_type != nb::device::cpu::value) {
        return false;
    }
    out.sizes.count = seen.dimensions;
    for (int i = 0; i < seen.dimensions; ++i) {
        if (seen.shape[i] == 0) return false;
        out.sizes.values.at(static_cast<std::size_t>(i)) = seen.shape[i];
    }
    return !is_negated(array, seen);
}

}  // namespace

nb::object Sizes::tuple() const {
    nb::object made = nb::steal(PyTuple_New(count));
    for (int i = 0; i < count; ++i) {
        NB_TUPLE_SET_ITEM(made.ptr(), i, PyLong_FromLongLong(values.at(static_cast<std::size_t>(i))));
    }
    return made;
}

Sizes Sizes::row_major_strides() const {
    Sizes strides{.count = count};
    std::int64_t stride = 1;
    for (int i = count - 1; i >= 0; --i) {
        strides.values.at(static_cast<std::size_t>(i)) = stride;
        stride *= values.at(static_cast<std::size_t>(i));
    }
    return strides;
}

bool see(nb::handle array, SeenTensor& out) {
    if (array.is_none()) return true;
    KeptExchange::Description seen;
    if (!describe(array, seen, out) || seen.dimensions > Dims::capacity) return false;
    for (int i = 0; i < seen.dimensions; ++i) {
        out.tensor.shape.push_back(seen.shape[i]);
        out.tensor.strides.push_back(seen.strides[i]);
    }
    return true;
}

bool see_matrix(nb::handle array, SeenTensor& out) {
    KeptExchange::Description seen;
    if (array.is_none() || !describe(array, seen, out)) return false;
    const int last = seen.dimensions - 1;
    std::int64_t rows = 1;
    std::int64_t stride = seen.shape[last];
    for (int i = last - 1; i >= 0; --i) {
        if (seen.shape[i] == 1) continue;
        if (rows == 1) stride = seen.strides[i];
        if (seen.strides[i] != rows * stride) return false;
        rows *= seen.shape[i];
    }
    out.tensor.shape = {rows, seen.shape[last]};
    out.tensor.strides = {stride, seen.strides[last]};
    return true;
}

void* torch_address(nb::handle tensor) {
    KeptExchange::Description seen;
    if (!Torch::get().exchange().look_at(tensor, seen)) throw std::runtime_error("torch does not lend a new tensor");
    return seen.address();
}

bool torch_is_unobserved() { return Torch::get().is_unobserved(); }
bool torch_records_gradients() { return Torch::get().records_gradients(); }

bool requires_gradient(nb::handle tensor) {
    static PyObject* const name = PyUnicode_InternFromString("requires_grad");
    if (tensor.is_none()) return false;
    const nb::object required = nb::steal(PyObject_GetAttr(tensor.ptr(), name));
    if (!required.is_valid()) throw nb::python_error();
    return required.is(Py_True);
}

void* torch_stream(int device) { return Torch::get().exchange().stream(device); }

BorrowedTensor torch_bytes(std::int64_t count, DeviceId device) {
    const bool on_gpu = device.kind == DeviceId::Kind::cuda;
    const int type = on_gpu ? nb::device::cuda::value : nb::device::cpu::value;
    return Torch::get().exchange().bytes(count, type, on_gpu ? device.index : 0);
}

}  // namespace tilewright::python
