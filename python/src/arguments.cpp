#include "arguments.h"

#include <nanobind/stl/string.h>
#include <tilewright/error.h>

#include <cmath>

namespace tilewright::python {
namespace {

constexpr std::size_t longest_shown = 60;

/// Types whose repr is short and complete.
bool is_shown_in_full(nb::handle value) {
    return value.is_none() || nb::isinstance<nb::str>(value) || nb::isinstance<nb::int_>(value) ||
           nb::isinstance<nb::float_>(value) || is_dtype(value);
}

/// Calls a function of Python's C API, whose errors mean that the value is of no use.
template <class Function>
nb::object converted(const Function& function, nb::handle value) {
    nb::object result = nb::steal(function(value.ptr()));
    if (!result.is_valid()) PyErr_Clear();
    return result;
}

std::string range_text(std::int64_t low, std::int64_t high) {
    if (low == std::numeric_limits<std::int64_t>::min()) return "a 64-bit integer";
    const bool open = high >= std::numeric_limits<std::int32_t>::max();
    if (open) return "an integer of at least " + std::to_string(low);
    return "an integer from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

void refuse(const std::string& operand, const std::string& given, const std::string& expected,
            const std::string& advice) {
    throw Error(std::vector<Finding>{{operand, given, expected, advice}});
}

std::string class_name(nb::handle value) { return nb::cast<std::string>(nb::str(value.type().attr("__name__"))); }

bool is_dtype(nb::handle value) {
    const std::string type = class_name(value);
    return type.find("dtype") != std::string::npos || type.find("DType") != std::string::npos;
}

std::string shown(nb::handle value) {
    if (PyType_Check(value.ptr()) != 0) return "the type " + nb::cast<std::string>(value.attr("__name__"));
    if (!is_shown_in_full(value)) return class_name(value);
    const nb::object repr = converted(PyObject_Repr, value);
    if (!repr.is_valid()) return class_name(value);
    std::string text = nb::cast<std::string>(nb::str(repr));
    if (text.size() > longest_shown) text = text.substr(0, longest_shown - 3) + "...";
    return text;
}

std::string_view text(nb::handle value, const char* argument, const std::string& expected) {
    if (!nb::isinstance<nb::str>(value)) refuse(argument, shown(value), expected);
    Py_ssize_t size = 0;
    const char* const characters = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (characters == nullptr) {
        PyErr_Clear();
        refuse(argument, "text that is not Unicode", expected);
    }
    return {characters, static_cast<std::size_t>(size)};
}

bool flag(nb::handle value, const char* argument) {
    if (value.ptr() == Py_True || value.ptr() == Py_False) return value.ptr() == Py_True;
    const std::string type = class_name(value);
    if (type == "bool" || type == "bool_") return PyObject_IsTrue(value.ptr()) == 1;  // numpy's
    refuse(argument, shown(value), "True or False");
}

std::int64_t integer(nb::handle value, const std::string& argument, std::int64_t low, std::int64_t high,
                     const std::string& advice) {
    const nb::object index = PyBool_Check(value.ptr()) != 0 ? nb::object() : converted(PyNumber_Index, value);
    if (!index.is_valid()) refuse(argument, shown(value), range_text(low, high), advice);
    int overflow = 0;
    const std::int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0 || number < low || number > high) {
        refuse(argument, shown(index), range_text(low, high), advice);
    }
    return number;
}

float number(nb::handle value, const char* argument) {
    const bool is_text = nb::isinstance<nb::str>(value) || nb::isinstance<nb::bytes>(value);
    const nb::object real = is_text ? nb::object() : converted(PyNumber_Float, value);
    if (!real.is_valid()) refuse(argument, shown(value), "a number");
    const double wide = PyFloat_AsDouble(real.ptr());
    const auto narrow = static_cast<float>(wide);
    if (std::isfinite(wide) && !std::isfinite(narrow)) {
        refuse(argument, shown(value), "a number within float32's range, whose largest is 3.4e38");
    }
    return narrow;
}

std::vector<std::int64_t> integers(nb::handle value, const std::string& argument) {
    const nb::object items = nb::isinstance<nb::str>(value) ? nb::object() : converted(PySequence_Tuple, value);
    if (!items.is_valid()) refuse(argument, shown(value), "a sequence of integers");
    std::vector<std::int64_t> numbers;
    const Py_ssize_t count = PyTuple_Size(items.ptr());
    for (Py_ssize_t i = 0; i < count; ++i) {
        const nb::handle item(PyTuple_GetItem(items.ptr(), i));
        numbers.push_back(integer(item, argument + "[" + std::to_string(i) + "]"));
    }
    return numbers;
}

Format format_word(nb::handle value, const char* argument, const std::vector<Format>& accepted) {
    static const std::vector<Format> all{Format::e4m3, Format::e5m2, Format::e2m1, Format::ue8m0, Format::ue4m3,
                                         Format::bf16, Format::f16,  Format::f32,  Format::i32,   Format::i64};
    std::string expected = "one of";
    for (const Format format : accepted.empty() ? all : accepted) {
        expected += (expected.size() > 6 ? ", " : " ") + std::string(name(format));
    }
    const std::string_view word = text(value, argument, expected);
    for (const Format format : accepted.empty() ? all : accepted) {
        if (name(format) == word) return format;
    }
    refuse(argument, "'" + std::string(word) + "'", expected);
}

}  // namespace tilewright::python
