// A device of the user's own: a file in the format of the tables that ship.
#include <fmt/format.h>
#include <tilewright/error.h>
#include <tilewright/plan.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "plan/devices.h"

namespace tilewright {
namespace {

constexpr std::size_t most_bytes = 1 << 20;
constexpr std::size_t most_findings = 8;
constexpr const char* format_advice =
    "The format is that of src/plan/devices/h200.tsv; tools/measure_device writes such files";

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
    throw Error({Finding{.operand = "device",
                         .given = fmt::format("'{}', {}", path, why),
                         .expected = "a device file",
                         .advice = format_advice}});
}

/// Only a regular file: a pipe would block, and a device such as /dev/zero never ends.
std::string contents(const std::string& path) {
    if (path.find('\0') != std::string::npos) refuse_file(path.substr(0, path.find('\0')), "a path with a zero byte");
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) refuse_file(path, "which does not exist");
    if (!std::filesystem::is_regular_file(status)) refuse_file(path, "which is not a file");
    std::ifstream file(path, std::ios::binary);
    std::string text(most_bytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad() || (file.fail() && !file.eof())) refuse_file(path, "which cannot be read");
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > most_bytes) refuse_file(path, "of more than 1 MiB");
    return text;
}

}  // namespace

bool is_device_file(std::string_view word) {
    return word.find('/') != std::string_view::npos || word.ends_with(".tsv");
}

DeviceDescription read_device(const std::string& path) {
    planner::ParsedDevice parsed = planner::parse_device(contents(path));
    if (parsed.problems.empty()) return std::move(parsed.device);
    std::vector<Finding> findings;
    for (const planner::TsvProblem& problem : parsed.problems) {
        const std::string where = problem.line > 0 ? fmt::format("line {} of ", problem.line) : "";
        findings.push_back({.operand = "device",
                            .given = fmt::format("{} in {}'{}'", problem.given, where, path),
                            .expected = problem.expected,
                            .advice = format_advice});
        if (findings.size() == most_findings) break;
    }
    throw Error(std::move(findings));
}

}  // namespace tilewright
