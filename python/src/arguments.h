// Values of keyword arguments: checked, and named in the message where they are wrong.
#pragma once

#include <nanobind/nanobind.h>
#include <tilewright/formats.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::python {

namespace nb = nanobind;

/// Throws Error with one finding.
[[noreturn]] void refuse(const std::string& operand, const std::string& given, const std::string& expected,
                         const std::string& advice = {});

/// How a message shows the value: 'x', 1.5, None, torch.float32; arrays and other objects by the name of their type.
std::string shown(nb::handle value);

std::string class_name(nb::handle value);

/// Whether it is a dtype of torch, whose type is "dtype", or of numpy: "Float32DType", "dtype[bfloat16]". No type such
/// as numpy.float32.
bool is_dtype(nb::handle value);

/// Each throws Error about `argument` where the value is of another kind.
std::string_view text(nb::handle value, const char* argument, const std::string& expected);
bool flag(nb::handle value, const char* argument);

/// An integer of Python or numpy (no bool) from low to high.
std::int64_t integer(nb::handle value, const std::string& argument,
                     std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                     std::int64_t high = std::numeric_limits<std::int64_t>::max(), const std::string& advice = {});

/// Whatever float() takes, except text; finite numbers beyond float32's range are refused.
float number(nb::handle value, const char* argument);

/// The integers of a sequence.
std::vector<std::int64_t> integers(nb::handle value, const std::string& argument);

/// One of the formats; all of them where none are listed.
Format format_word(nb::handle value, const char* argument, const std::vector<Format>& accepted = {});

}  // namespace tilewright::python
