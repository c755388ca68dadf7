#include "array.h"

#include "arguments.h"
#include "element_type.h"
#include "raw_array.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <tilewright/error.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tilewright::python {
namespace {

constexpr const char* unpacked_e2m1 = "pack two elements per byte, low nibble first, as tilewright.encode does";

/// dtype -> (format, carrier). Never destroyed: the interpreter is gone by then.
nb::dict& registry() {
    static auto* dtypes = new nb::dict();
    return *dtypes;
}

/// The strides of a numpy array or torch tensor; nothing for other libraries.
std::optional<Dims> own_strides(nb::handle array) {
    const nb::object given = arrays_module().attr("strides")(array);
    if (given.is_none()) return std::nullopt;
    Dims strides;
    for (const nb::handle stride : nb::borrow<nb::tuple>(given)) strides.push_back(nb::cast<std::int64_t>(stride));
    return strides;
}

/// The dimension of stride 1, -1 if there is none. Where several dimensions or none have it, the library's own strides
/// decide: DLPack exporters may write other strides for a dimension with one element and for empty arrays. If several
/// have it there too, the last one counts: [n, 1] and [1, n] bytes are then rows, never a transpose.
int packed_dimension(const Tensor& tensor, nb::handle array) {
    const int last = tensor.shape.kept() - 1;
    const bool ambiguous = std::count(tensor.strides.begin(), tensor.strides.end(), 1) != 1;
    const Dims strides = ambiguous ? own_strides(array).value_or(tensor.strides) : tensor.strides;
    for (int i = last; i >= 0; --i) {
        if (strides[i] == 1) return i;
    }
    const bool is_empty = std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0;
    return is_empty || tensor.shape[last] == 1 ? last : -1;
}

/// From bytes to elements.
void count_packed_elements(Tensor& tensor, nb::handle array, const ArrayRole& role) {
    const int packed = packed_dimension(tensor, array);
    if (packed < 0) {
        refuse(role.operand, "strides " + to_string(tensor.strides) + " in bytes", "one dimension of stride 1",
               "two e2m1 values share a byte, so pairs must be adjacent");
    }
    for (int i = 0; i < tensor.shape.kept(); ++i) {
        if (i == packed) {
            tensor.shape[i] *= 2;
            tensor.strides[i] = 1;
        } else {
            tensor.strides[i] *= 2;
        }
    }
}

template <class Array>
Tensor described(const Array& array, Format format, nb::handle source, const ArrayRole& role) {
    Tensor tensor{.data = const_cast<void*>(static_cast<const void*>(array.data())), .format = format};
    for (std::size_t i = 0; i < array.ndim(); ++i) {
        tensor.shape.push_back(static_cast<std::int64_t>(array.shape(i)));
        tensor.strides.push_back(array.stride(i));
    }
    if (array.ndim() == 0) {
        tensor.shape.push_back(1);
        tensor.strides.push_back(1);
    }
    const int device = array.device_type();
    if (device == nb::device::cuda::value || device == nb::device::cuda_managed::value) {
        tensor.device = {DeviceId::Kind::cuda, array.device_id()};
    } else if (device != nb::device::cpu::value && device != nb::device::cuda_host::value) {
        refuse(role.operand, "memory of DLPack device " + std::to_string(device), "CPU or CUDA memory");
    }
    if (format == Format::e2m1) count_packed_elements(tensor, source, role);
    return tensor;
}

/// The registry's entry for the array's dtype: (format, carrier), or nothing.
nb::object registered(nb::handle array) {
    PyObject* dtype = PyObject_GetAttrString(array.ptr(), "dtype");
    if (dtype == nullptr) {
        PyErr_Clear();
        return {};
    }
    PyObject* entry = PyDict_GetItemWithError(registry().ptr(), dtype);
    Py_DECREF(dtype);
    PyErr_Clear();
    return nb::borrow(entry);
}

/// The exact type numpy.ndarray, which has nothing that `refuse_state` looks for.
bool is_numpy_array(nb::handle array) {
    static const PyTypeObject* const type =
        reinterpret_cast<PyTypeObject*>(nb::module_::import_("numpy").attr("ndarray").ptr());
    return Py_TYPE(array.ptr()) == type;
}

/// Calls a method of torch's tensors without arguments. Fails only where the tensor is not torch's.
nb::object called(nb::handle tensor, PyObject* method) {
    PyObject* const self = tensor.ptr();
    nb::object result = nb::steal(PyObject_VectorcallMethod(method, &self, 1, nullptr));
    if (!result.is_valid()) PyErr_Clear();
    return result;
}

/// Throws Error where tilewright._arrays knows why the array is of no use, whatever its dtype.
void refuse_known(nb::handle array, const ArrayRole& role) {
    const nb::object reason = arrays_module().attr("reason_to_refuse")(array);
    if (reason.is_none()) return;
    const auto [given, expected, advice] = nb::cast<std::array<std::string, 3>>(reason);
    refuse(role.operand, given, expected, advice);
}

/// Throws Error for state that is not in an array's memory: a mask of numpy, torch's lazy negation, and a gradient that
/// torch would compute, because there is none here. True for tensors of torch. Not called for numpy's arrays, which
/// lack the attribute: that would cost one exception per call.
bool refuse_state(nb::handle array, const ArrayRole& role) {
    static PyObject* const gradient = PyUnicode_InternFromString("requires_grad");
    const nb::object required = nb::steal(PyObject_GetAttr(array.ptr(), gradient));
    if (!required.is_valid()) {
        PyErr_Clear();
        if (!nb::cast<bool>(arrays_module().attr("is_masked")(array))) return false;
        refuse(role.operand, "a masked array", "an array without a mask", "pass x.filled(value), or x.data");
    }
    const bool is_followed = !required.is(Py_False) && nb::cast<bool>(arrays_module().attr("wants_gradient")(array));
    if (is_followed || !is_usual_tensor(array)) refuse_known(array, role);
    return true;
}

/// Throws Error for a tensor of torch without memory: torch says nothing of it where it exports such a tensor.
void refuse_null(nb::handle array, const Tensor& tensor, const ArrayRole& role) {
    if (tensor.data != nullptr || std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0) return;
    refuse_known(array, role);
    refuse(role.operand, "a tensor whose storage was freed", "memory for " + to_string(tensor.shape),
           "gather sharded parameters before the call, or resize the storage back");
}

/// Throws Error for torch's lazy negation, the imaginary part of a conjugate: its memory has the opposite signs. Such a
/// view has every second element of complex numbers; other tensors are not asked, which would cost 0.2 us each.
void refuse_negation(nb::handle array, const Tensor& tensor, const ArrayRole& role) {
    static PyObject* const negation = PyUnicode_InternFromString("is_neg");
    if (tensor.format != Format::f32 && tensor.format != Format::f16 && tensor.format != Format::bf16) return;
    for (int i = 0; i < tensor.shape.kept(); ++i) {
        if (tensor.shape[i] > 1 && tensor.strides[i] % 2 != 0) return;
    }
    if (!called(array, negation).is(Py_True)) return;
    refuse(role.operand, "a tensor with torch's negation bit, whose memory has opposite signs", "one without it",
           "pass x.resolve_neg()");
}

/// Why an array was not taken.
[[noreturn]] void refuse_array(nb::handle array, const ArrayRole& role) {
    nb::ndarray<nb::ro> readable;
    if (role.writable && nb::try_cast(array, readable, false)) {
        refuse(role.operand, "a read-only array", "a writable array");
    }
    refuse_known(array, role);
    if (nb::hasattr(array, "dtype")) refuse(role.operand, dtype_name(array), expected_elements(role));
    const bool is_list = PyList_Check(array.ptr()) != 0 || PyTuple_Check(array.ptr()) != 0;
    refuse(role.operand, class_name(array), "an array with DLPack or the buffer protocol (numpy, torch, ...)",
           !is_list        ? ""
           : role.integers ? "convert it, e.g. numpy.array(x, numpy.int64)"
                           : "convert it, e.g. numpy.array(x, numpy.float32)");
}

/// Borrows the memory through DLPack's C exchange; false where the library does not offer it.
bool is_lent(nb::handle array, const ArrayRole& role, ArrayView& out) {
    out.borrowed = borrow(array);
    if (out.borrowed.is_valid() && role.writable && out.borrowed.is_read_only()) {
        refuse(role.operand, "a read-only array", "a writable array");
    }
    return out.borrowed.is_valid();
}

bool is_imported(nb::handle array, const ArrayRole& role, ArrayView& out) {
    return role.writable ? nb::try_cast(array, out.writable, false) : nb::try_cast(array, out.readable, false);
}

/// Fills the member of `out` that holds the memory, and returns the format where the registry has the dtype.
std::optional<Format> import_memory(nb::handle array, bool is_numpy, const ArrayRole& role, ArrayView& out) {
    if (!is_numpy && is_lent(array, role, out)) return std::nullopt;
    nb::object entry = registered(array);
    if (!entry.is_valid()) {
        if (is_imported(array, role, out)) return std::nullopt;
        arrays_module().attr("learn_dtypes")(array);
        entry = registered(array);
        if (!entry.is_valid()) refuse_array(array, role);
    }
    const auto [format, carrier] = nb::cast<std::pair<std::string, nb::object>>(entry);
    if (format.empty()) refuse(role.operand, dtype_name(array), expected_elements(role), unpacked_e2m1);
    const nb::object codes = array.attr("view")(carrier);
    const bool lent = !is_numpy && is_lent(codes, role, out);
    if (!lent && !is_imported(codes, role, out)) refuse_array(array, role);
    return parse_format(format);
}

/// Calls `use` with the member of `out` that holds the memory.
template <class Use>
auto with_memory(const ArrayView& out, const ArrayRole& role, const Use& use) {
    if (out.borrowed.is_valid()) return use(out.borrowed);
    return role.writable ? use(out.writable) : use(out.readable);
}

}  // namespace

nb::handle arrays_module() {
    static PyObject* const module = nb::module_::import_("tilewright._arrays").release().ptr();
    return module;
}

bool is_usual_tensor(nb::handle array) {
    static PyObject* types = nullptr;  // a tuple, never released: the interpreter may be gone by then
    if (types == nullptr) {
        const nb::tuple known(arrays_module().attr("usual_tensor_types")());
        if (known.size() == 0) return false;
        types = known.inc_ref().ptr();
    }
    const auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(array.ptr()));
    return type == PyTuple_GetItem(types, 0) || type == PyTuple_GetItem(types, 1);
}

void register_dtype(nb::object dtype, const std::string& format, nb::object carrier) {
    registry()[std::move(dtype)] = nb::make_tuple(format, std::move(carrier));
}

ArrayView view(nb::handle array, const ArrayRole& role) {
    ArrayView out{.source = nb::borrow(array)};
    if (array.is_none()) return out;
    if (nb::isinstance<RawArray>(array)) {
        out.tensor = raw_tensor(nb::cast<const RawArray&>(array), role);
        return out;
    }
    const bool is_numpy = is_numpy_array(array);
    if (!is_numpy) out.is_torch = refuse_state(array, role);
    const std::optional<Format> known = import_memory(array, is_numpy, role, out);
    out.tensor = with_memory(out, role, [&](const auto& memory) {
        return described(memory, element_format(memory.dtype(), known, array, role), array, role);
    });
    if (out.is_torch) {
        refuse_null(array, out.tensor, role);
        refuse_negation(array, out.tensor, role);
    }
    return out;
}

bool has_moved(const ArrayView& view) {
    static PyObject* const address = PyUnicode_InternFromString("data_ptr");
    if (!view.is_torch) return false;
    const nb::object now = called(view.source, address);
    return now.is_valid() && PyLong_AsVoidPtr(now.ptr()) != view.tensor.data;
}

namespace {

/// torch.empty_strided, which takes 1 us less than torch.empty, and torch's dtypes. Looked up once. Never released: the
/// interpreter may be gone by then.
class TorchMemory {
public:
    static nb::object allocate(nb::handle sizes, nb::handle strides, Format format, nb::handle device) {
        static TorchMemory torch;
        PyObject* const arguments[] = {sizes.ptr(), strides.ptr(), torch.dtype(format), device.ptr()};
        nb::object made = nb::steal(PyObject_Vectorcall(torch.empty_, arguments, 2, torch.keywords_));
        if (!made.is_valid()) throw nb::python_error();
        return made;
    }

private:
    PyObject* dtype(Format format) {
        PyObject*& known = dtypes_.at(static_cast<std::size_t>(format));
        if (known == nullptr) {
            known = nb::object(arrays_module().attr("torch_dtype")(nb::str(name(format).data()))).release().ptr();
        }
        return known;
    }

    PyObject* empty_ = nb::object(nb::module_::import_("torch").attr("empty_strided")).release().ptr();
    PyObject* keywords_ = nb::make_tuple("dtype", "device").release().ptr();
    std::array<PyObject*, static_cast<std::size_t>(Format::i64) + 1> dtypes_{};
};

}  // namespace

nb::object new_tensor(nb::handle sizes, nb::handle strides, Format format, nb::handle device) {
    return TorchMemory::allocate(sizes, strides, format, device);
}

nb::object new_array(nb::handle like, const Dims& shape, Format format, bool zeros) {
    const nb::object sizes = nb::steal(PyTuple_New(shape.kept()));
    for (int i = 0; i < shape.kept(); ++i) NB_TUPLE_SET_ITEM(sizes.ptr(), i, PyLong_FromLongLong(shape[i]));
    if (!zeros && is_usual_tensor(like)) {
        static PyObject* const place = PyUnicode_InternFromString("device");
        const nb::object strides = nb::steal(PyTuple_New(shape.kept()));
        std::int64_t stride = 1;
        for (int i = shape.kept() - 1; i >= 0; --i) {
            NB_TUPLE_SET_ITEM(strides.ptr(), i, PyLong_FromLongLong(stride));
            stride *= std::max<std::int64_t>(shape[i], 1);
        }
        return new_tensor(sizes, strides, format, nb::steal(PyObject_GetAttr(like.ptr(), place)));
    }
    return arrays_module().attr("new_array")(like, sizes, nb::str(name(format).data()), zeros);
}

}  // namespace tilewright::python
