// JSON as Python's json module reads it, by position: a part of a text can be replaced while every other byte stays.
//
// Python writes and reads model configurations and accepts more than RFC 8259:
// - Infinity, -Infinity, NaN and numbers of any length;
// - repeated keys, of which the last one counts;
// - half a surrogate pair.
//
// Numbers are not interpreted here.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::safetensors {

/// Why a text is not JSON, and at which byte.
class JsonTextError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct JsonMember {
    std::string key{};         // without escapes
    std::string_view value{};  // a part of the text
};

/// The members of the object that the whole text is, in their order. Values are checked to any depth. Throws
/// JsonTextError for anything else.
std::vector<JsonMember> json_members(std::string_view text);

/// Throws JsonTextError for a text that is no JSON value.
void check_json(std::string_view text);

/// The text, an object, with new values for the members for which `other` has one.
using OtherValue = std::function<std::optional<std::string>(const JsonMember&)>;
std::string with_values(std::string_view text, const OtherValue& other);

/// The text, an object, with one more member at its end, written as its first one is.
std::string with_member(std::string_view text, const std::string& key, std::string_view value);

}  // namespace tilewright::safetensors
