#include "raw_array.h"

#include "arguments.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <charconv>

namespace tilewright::python {
namespace {

/// "cpu", "cuda" or "cuda:1".
DeviceId device_word(nb::handle value) {
    const std::string expected = "cpu, cuda or cuda:<index>";
    const std::string_view text = python::text(value, "device", expected);
    if (text == "cpu") return {};
    DeviceId device{.kind = DeviceId::Kind::cuda};
    if (text == "cuda") return device;
    if (text.substr(0, 5) == "cuda:") {
        const char* const end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data() + 5, end, device.index);
        if (error == std::errc() && rest == end && device.index >= 0) return device;
    }
    refuse("device", "'" + std::string(text) + "'", expected);
}

void push_all(Dims& dims, const std::vector<std::int64_t>& numbers) {
    for (const std::int64_t number : numbers) dims.push_back(number);
}

}  // namespace

RawArray::RawArray(nb::handle address, nb::handle shape, nb::handle format, nb::handle strides, nb::handle device) {
    tensor.data = reinterpret_cast<void*>(integer(address, "address", 0));
    tensor.format = format_word(format, "format");
    tensor.device = device_word(device);
    std::vector<std::int64_t> sizes = integers(shape, "shape");
    const std::size_t dimensions = sizes.size();
    if (dimensions == 0) sizes.push_back(1);
    push_all(tensor.shape, sizes);
    for (const std::int64_t size : sizes) {
        if (size < 0) refuse("shape", to_string(tensor.shape), "sizes of 0 or more");
    }
    tensor.strides = row_major_strides(tensor.format, tensor.shape);
    if (strides.is_none()) return;
    const std::vector<std::int64_t> given = integers(strides, "strides");
    if (given.size() != dimensions) {
        refuse("strides", std::to_string(given.size()), std::to_string(dimensions) + " (one per dimension)");
    }
    if (dimensions == 0) return;
    tensor.strides = {};
    push_all(tensor.strides, given);
}

Tensor raw_tensor(const RawArray& array, const ArrayRole& role) {
    const Format given = array.tensor.format;
    const bool integer = given == Format::i32 || given == Format::i64;
    const bool fits = role.format && !role.only_codes ? given == *role.format : integer == role.integers;
    if (fits) return array.tensor;
    const std::string expected = role.integers ? "i32 or i64"
                                 : role.format ? std::string(name(*role.format))
                                               : "bf16, f16 or f32";
    refuse(role.operand, std::string(name(given)), expected);
}

void bind_raw_arrays(nb::module_& m) {
    nb::class_<RawArray>(m, "RawArray", "Memory by its address, as an array.")
        .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(), nb::arg("address").none(),
             nb::arg("shape").none(), nb::arg("format").none(), nb::arg("strides") = nb::none(),
             nb::arg("device").none() = "cuda:0",
             nb::sig("def __init__(self, address: int, shape: collections.abc.Sequence[int], format: str, "
                     "strides: collections.abc.Sequence[int] | None = None, device: str = 'cuda:0') -> None"),
             "Shape and strides count elements, of e2m1 too; without strides: row-major. The caller keeps the memory "
             "alive until the GPU is done with it.")
        .def_prop_ro(
            "address", [](const RawArray& array) { return reinterpret_cast<std::uintptr_t>(array.tensor.data); },
            "As given.")
        .def_prop_ro(
            "shape",
            [](const RawArray& array) {
                return std::vector<std::int64_t>(array.tensor.shape.begin(), array.tensor.shape.end());
            },
            "Sizes in elements.")
        .def_prop_ro(
            "format", [](const RawArray& array) { return std::string_view(name(array.tensor.format)); }, "e.g. 'e4m3'.")
        .def("__repr__", [](const RawArray& array) {
            const Tensor& tensor = array.tensor;
            const bool on_gpu = tensor.device.kind == DeviceId::Kind::cuda;
            return fmt::format("<RawArray {} {} at {}{}>", name(tensor.format), to_string(tensor.shape),
                               fmt::ptr(tensor.data), on_gpu ? " of cuda:" + std::to_string(tensor.device.index) : "");
        });
}

}  // namespace tilewright::python
