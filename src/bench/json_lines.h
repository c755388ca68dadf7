// Files of measurements: one JSON object per line.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>

namespace tilewright::bench {

/// Calls read(object) for each line. Throws std::runtime_error for a line that is not JSON or in which `read` does not
/// find its members; `what` names the lines in the message.
template <typename Read>
void read_json_lines(const std::string& lines, const char* what, const Read& read) {
    std::istringstream text(lines);
    int number = 0;
    for (std::string line; std::getline(text, line);) {
        ++number;
        if (line.empty()) continue;
        try {
            read(nlohmann::json::parse(line));
        } catch (const nlohmann::json::exception& error) {
            throw std::runtime_error(fmt::format("line {} is none of {}: {}", number, what, error.what()));
        }
    }
}

}  // namespace tilewright::bench
