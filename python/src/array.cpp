#include "array.h"

#include "raw_array.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <tilewright/error.h>

#include <utility>

namespace tilewright::python {
namespace {

constexpr const char* unpacked_e2m1 = "pack two elements to a byte, low nibble first (tilewright.encode does)";

/// dtype -> (format, carrier). Never destroyed: the interpreter is gone by then.
nb::dict& registry() {
    static auto* dtypes = new nb::dict();
    return *dtypes;
}

std::string class_name(nb::handle array) { return nb::cast<std::string>(nb::str(array.type().attr("__name__"))); }

std::string dtype_name(nb::handle array) {
    if (!nb::hasattr(array, "dtype")) return class_name(array);
    const nb::object dtype = array.attr("dtype");
    return nb::cast<std::string>(nb::str(nb::handle(dtype)));
}

/// The format that a DLPack element type names by itself.
std::optional<Format> named_format(nb::dlpack::dtype type) {
    using Code = nb::dlpack::dtype_code;
    if (type.lanes != 1) return std::nullopt;
    switch (static_cast<Code>(type.code)) {
        case Code::Float:
            return type.bits == 32   ? std::optional(Format::f32)
                   : type.bits == 16 ? std::optional(Format::f16)
                                     : std::nullopt;
        case Code::Bfloat: return Format::bf16;
        case Code::Float8_E4M3FN: return Format::e4m3;
        case Code::Float8_E5M2: return Format::e5m2;
        case Code::Float8_E8M0FNU: return Format::ue8m0;
        case Code::Int:
            return type.bits == 32   ? std::optional(Format::i32)
                   : type.bits == 64 ? std::optional(Format::i64)
                                     : std::nullopt;
        default: return std::nullopt;
    }
}

/// Two e2m1 to a byte, as torch.float4_e2m1fn_x2 exports them.
bool is_packed_e2m1(nb::dlpack::dtype type) {
    return static_cast<nb::dlpack::dtype_code>(type.code) == nb::dlpack::dtype_code::Float4_E2M1FN && type.lanes == 2;
}

bool is_raw(nb::dlpack::dtype type, Format format) {
    const int carrier_bits = format == Format::e2m1 ? 8 : bits(format);
    const bool word = carrier_bits == 8 || carrier_bits == 16;
    return static_cast<nb::dlpack::dtype_code>(type.code) == nb::dlpack::dtype_code::UInt && type.lanes == 1 && word &&
           type.bits == carrier_bits;
}

/// An element type that names one format is also good for formats with the same codes.
bool stands_for(Format given, Format expected) {
    return given == expected || (given == Format::e4m3 && expected == Format::ue4m3);
}

std::string expected_text(const ArrayRole& role) {
    if (role.integers) return "int32 or int64";
    if (!role.format || role.only_codes) return "bfloat16, float16 or float32";
    const std::string word(name(*role.format));
    if (*role.format == Format::e2m1) return "e2m1, two to a byte of uint8";
    const int size = bits(*role.format);
    return size <= 16 ? word + ", or its codes as uint" + std::to_string(size) : word;
}

Format element_format(nb::dlpack::dtype type, std::optional<Format> registered, nb::handle array,
                      const ArrayRole& role) {
    std::optional<Format> given = registered ? registered : named_format(type);
    if (is_packed_e2m1(type)) given = Format::e2m1;
    if (role.format && (given ? stands_for(*given, *role.format) : is_raw(type, *role.format))) return *role.format;
    const bool integer = given == Format::i32 || given == Format::i64;
    if (given && integer == role.integers && (!role.format || role.only_codes)) return *given;
    const bool is_double = dtype_name(array).find("float64") != std::string::npos;
    refuse(role.operand, dtype_name(array), expected_text(role),
           given || !is_double ? "" : "convert it, e.g. x.astype(numpy.float32)");
}

/// From bytes to elements: the dimension of stride 1 is the packed one.
void count_packed_elements(Tensor& tensor, const ArrayRole& role) {
    int packed = -1;
    for (int i = 0; i < tensor.shape.kept(); ++i) {
        const bool longer = packed < 0 || tensor.shape[i] > 1 || tensor.shape[packed] <= 1;
        if (tensor.strides[i] == 1 && longer) packed = i;
    }
    const int last = tensor.shape.kept() - 1;
    if (packed < 0 && last >= 0 && tensor.shape[last] <= 1) packed = last;
    if (packed < 0) {
        refuse(role.operand, "strides " + to_string(tensor.strides) + " in bytes", "one dimension of stride 1",
               "two e2m1 share a byte, and their pairs must be neighbours");
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
Tensor described(const Array& array, Format format, const ArrayRole& role) {
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
    if (format == Format::e2m1) count_packed_elements(tensor, role);
    return tensor;
}

/// What the registry knows of the array's dtype: (format, carrier), or nothing.
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

bool is_numpy_array(nb::handle array) {
    static const PyTypeObject* const type =
        reinterpret_cast<PyTypeObject*>(nb::module_::import_("numpy").attr("ndarray").ptr());
    return Py_TYPE(array.ptr()) == type;
}

/// torch would compute a gradient through this tensor, and we have none to give. Asked of all but numpy's arrays, whose
/// lack of the attribute would cost an exception a call.
void refuse_gradient(nb::handle array, const ArrayRole& role) {
    static PyObject* const attribute = PyUnicode_InternFromString("requires_grad");
    const nb::object required = nb::steal(PyObject_GetAttr(array.ptr(), attribute));
    if (!required.is_valid()) PyErr_Clear();
    if (!required.is_valid() || required.is(Py_False)) return;
    if (!nb::cast<bool>(arrays_module().attr("wants_gradient")(array))) return;
    refuse(role.operand, "a tensor that requires a gradient", "one that does not",
           "pass x.detach(), or call it under torch.no_grad()");
}

/// Why an array was not taken.
[[noreturn]] void refuse_array(nb::handle array, const ArrayRole& role) {
    nb::ndarray<nb::ro> readable;
    if (role.writable && nb::try_cast(array, readable, false)) {
        refuse(role.operand, "a read-only array", "one that can be written");
    }
    if (nb::hasattr(array, "dtype")) refuse(role.operand, dtype_name(array), expected_text(role));
    refuse(role.operand, class_name(array), "an array that speaks DLPack or the buffer protocol (numpy, torch, ...)");
}

/// Whether the array's library lends its memory to `out`.
bool is_lent(nb::handle array, const ArrayRole& role, ArrayView& out) {
    out.borrowed = borrow(array);
    if (out.borrowed.is_valid() && role.writable && out.borrowed.is_read_only()) {
        refuse(role.operand, "a read-only array", "one that can be written");
    }
    return out.borrowed.is_valid();
}

bool is_imported(nb::handle array, const ArrayRole& role, ArrayView& out) {
    return role.writable ? nb::try_cast(array, out.writable, false) : nb::try_cast(array, out.readable, false);
}

/// Fills the member of `out` that holds the memory, and returns the format where the registry knows it.
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
    if (format.empty()) refuse(role.operand, dtype_name(array), expected_text(role), unpacked_e2m1);
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

void refuse(const std::string& operand, const std::string& given, const std::string& expected,
            const std::string& advice) {
    throw Error(std::vector<Finding>{{operand, given, expected, advice}});
}

nb::handle arrays_module() {
    static PyObject* const module = nb::module_::import_("tilewright._arrays").release().ptr();
    return module;
}

void register_dtype(nb::object dtype, const std::string& format, nb::object carrier) {
    registry()[dtype] = nb::make_tuple(format, carrier);
}

ArrayView view(nb::handle array, const ArrayRole& role) {
    ArrayView out{.source = nb::borrow(array)};
    if (array.is_none()) return out;
    if (nb::isinstance<RawArray>(array)) {
        out.tensor = raw_tensor(nb::cast<const RawArray&>(array), role);
        return out;
    }
    const bool is_numpy = is_numpy_array(array);
    if (!is_numpy) refuse_gradient(array, role);
    const std::optional<Format> known = import_memory(array, is_numpy, role, out);
    out.tensor = with_memory(out, role, [&](const auto& memory) {
        return described(memory, element_format(memory.dtype(), known, array, role), role);
    });
    return out;
}

nb::object new_array(nb::handle like, const Dims& shape, Format format, bool zeros) {
    nb::object sizes = nb::steal(PyTuple_New(shape.kept()));
    for (int i = 0; i < shape.kept(); ++i) PyTuple_SET_ITEM(sizes.ptr(), i, PyLong_FromLongLong(shape[i]));
    return arrays_module().attr("new_array")(like, sizes, nb::str(name(format).data()), zeros);
}

}  // namespace tilewright::python
