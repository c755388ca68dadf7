// JSON of data that may have names of files, or arguments of a command.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tilewright::output {

/// Bytes that are not UTF-8, which names of files may have, become U+FFFD. `indent` -1: one line.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
    return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tilewright::output
