#include "element_type.h"

#include "arguments.h"

#include <nanobind/stl/string.h>

#include <array>
#include <string_view>

namespace tilewright::python {
namespace {

using Code = nb::dlpack::dtype_code;

Code code_of(nb::dlpack::dtype type) { return static_cast<Code>(type.code); }

/// The format that a DLPack element type names by itself.
std::optional<Format> named_format(nb::dlpack::dtype type) {
    const auto by_bits = [&](int low, Format narrow, int high, Format wide) {
        return type.bits == low ? std::optional(narrow) : type.bits == high ? std::optional(wide) : std::nullopt;
    };
    if (code_of(type) == Code::Float4_E2M1FN && type.lanes == 2) return Format::e2m1;  // torch.float4_e2m1fn_x2
    if (type.lanes != 1) return std::nullopt;
    switch (code_of(type)) {
        case Code::Float: return by_bits(16, Format::f16, 32, Format::f32);
        case Code::Int: return by_bits(32, Format::i32, 64, Format::i64);
        case Code::Bfloat: return Format::bf16;
        case Code::Float8_E4M3FN: return Format::e4m3;
        case Code::Float8_E5M2: return Format::e5m2;
        case Code::Float8_E8M0FNU: return Format::ue8m0;
        default: return std::nullopt;
    }
}

/// Whether elements of this type can be codes of `format`: unsigned integers, and for e2m1, two per byte, also int8,
/// which DeepGEMM and others use.
bool holds_codes(nb::dlpack::dtype type, Format format) {
    const int carrier_bits = format == Format::e2m1 ? 8 : bits(format);
    const bool is_integer = code_of(type) == Code::UInt || (format == Format::e2m1 && code_of(type) == Code::Int);
    return is_integer && type.lanes == 1 && type.bits == carrier_bits && carrier_bits <= 16;
}

/// An element type that names one format also serves a format with the same codes.
bool serves(Format given, Format expected) {
    return given == expected || (given == Format::e4m3 && expected == Format::ue4m3);
}

std::string advice_for(nb::handle array, const ArrayRole& role) {
    const std::string given = dtype_name(array);
    if (role.format && bits(*role.format) <= 8 && (given == "int8" || given == "torch.int8")) {
        return given == "int8" ? "view its bytes, x.view(numpy.uint8)" : "view its bytes, x.view(torch.uint8)";
    }
    if (role.integers) {
        return given.find("torch") == std::string::npos ? "convert it, e.g. x.astype(numpy.int64)"
                                                        : "convert it, e.g. x.long()";
    }
    if (role.codes && (given.find("int8") != std::string::npos || given.find("int16") != std::string::npos)) {
        return "name the format of the codes, e.g. format='e4m3'";
    }
    if (given.find("complex") != std::string::npos) return "pass x.real and x.imag separately";
    const bool is_integer = given.find("int") != std::string::npos;
    if (!is_integer && given.find("float64") == std::string::npos && given.find("bool") == std::string::npos) return {};
    if (role.writable) return "allocate it with another dtype, e.g. float32";
    const std::string advice = given.find("torch") == std::string::npos ? "convert it, e.g. x.astype(numpy.float32)"
                                                                        : "convert it, e.g. x.float()";
    return is_integer && !role.format ? advice + ". For values that are already quantized, use Quantized" : advice;
}

/// "float32" of that word, numpy.float32, numpy.dtype("float32") and torch.float32; nothing for other objects.
std::string dtype_word(nb::handle value) {
    if (nb::isinstance<nb::str>(value)) return std::string(text(value, "dtype", {}));
    if (PyType_Check(value.ptr()) != 0) return nb::cast<std::string>(value.attr("__name__"));
    if (!is_dtype(value)) return {};
    const std::string word = nb::cast<std::string>(nb::str(value));
    constexpr std::string_view torch = "torch.";
    return word.rfind(torch, 0) == 0 ? word.substr(torch.size()) : word;
}

}  // namespace

std::string dtype_name(nb::handle array) {
    if (!nb::hasattr(array, "dtype")) return class_name(array);
    const nb::object dtype = array.attr("dtype");
    return nb::cast<std::string>(nb::str(nb::handle(dtype)));
}

Format output_format(nb::handle value, const char* argument) {
    constexpr std::array formats{Format::bf16, Format::f16, Format::f32};
    constexpr std::array<std::string_view, 3> full_names{"bfloat16", "float16", "float32"};
    const std::string given = dtype_word(value);
    for (std::size_t i = 0; i < formats.size(); ++i) {
        const bool own_name = nb::isinstance<nb::str>(value) && name(formats[i]) == given;
        if (own_name || full_names[i] == given) return formats[i];
    }
    refuse(argument, shown(value),
           "one of bf16, f16, f32, bfloat16, float16, float32, or the same dtype of numpy, ml_dtypes or torch");
}

std::string expected_elements(const ArrayRole& role) {
    if (role.integers) return "int32 or int64";
    if (role.codes && !role.format)
        return "an array whose dtype is a float format, or its codes (uint8, uint16) with format=";
    if (!role.format || role.only_codes) return "bfloat16, float16 or float32";
    const std::string word(name(*role.format));
    if (*role.format == Format::e2m1) return "e2m1, two values per byte of uint8 or int8";
    const int size = bits(*role.format);
    return size <= 16 ? word + ", or its codes as uint" + std::to_string(size) : word;
}

Format element_format(nb::dlpack::dtype type, std::optional<Format> known, nb::handle array, const ArrayRole& role) {
    const std::optional<Format> given = known ? known : named_format(type);
    if (role.format && (given ? serves(*given, *role.format) : holds_codes(type, *role.format))) return *role.format;
    const bool integer = given == Format::i32 || given == Format::i64;
    if (given && integer == role.integers && (!role.format || role.only_codes)) return *given;
    refuse(role.operand, dtype_name(array), expected_elements(role), advice_for(array, role));
}

}  // namespace tilewright::python
