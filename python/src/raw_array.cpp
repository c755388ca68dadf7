#include "raw_array.h"

#include "call.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <charconv>

namespace tilewright::python {
namespace {

/// "cpu", "cuda" or "cuda:1".
DeviceId device_word(std::string_view text) {
    if (text == "cpu") return {};
    DeviceId device{.kind = DeviceId::Kind::cuda};
    if (text == "cuda") return device;
    if (text.substr(0, 5) == "cuda:") {
        const char* const end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data() + 5, end, device.index);
        if (error == std::errc() && rest == end && device.index >= 0) return device;
    }
    refuse("device", "'" + std::string(text) + "'", "cpu, cuda or cuda:<index>");
}

Format raw_format(std::string_view text) {
    const std::optional<Format> format = parse_format(text);
    if (format) return *format;
    refuse("format", "'" + std::string(text) + "'", "one of e4m3, e5m2, e2m1, ue8m0, ue4m3, bf16, f16, f32, i32, i64");
}

}  // namespace

RawArray::RawArray(std::uintptr_t address, const std::vector<std::int64_t>& shape, std::string_view format,
                   const std::optional<std::vector<std::int64_t>>& strides, std::string_view device) {
    tensor.data = reinterpret_cast<void*>(address);
    tensor.format = raw_format(format);
    tensor.device = device_word(device);
    for (const std::int64_t size : shape) tensor.shape.push_back(size);
    tensor.strides = row_major_strides(tensor.format, tensor.shape);
    if (!strides) return;
    if (strides->size() != shape.size()) {
        refuse("strides", std::to_string(strides->size()) + " strides",
               std::to_string(shape.size()) + ", one a dimension");
    }
    tensor.strides = {};
    for (const std::int64_t stride : *strides) tensor.strides.push_back(stride);
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
        .def(nb::init<std::uintptr_t, const std::vector<std::int64_t>&, std::string_view,
                      const std::optional<std::vector<std::int64_t>>&, std::string_view>(),
             nb::arg("address"), nb::arg("shape"), nb::arg("format"), nb::arg("strides").none() = nb::none(),
             nb::arg("device") = "cuda:0",
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
            "format", [](const RawArray& array) { return std::string_view(name(array.tensor.format)); },
            "e.g. 'e4m3'.");
}

}  // namespace tilewright::python
