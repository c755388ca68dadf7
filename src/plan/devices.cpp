#include "plan/devices.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "hopper/description/design.h"

namespace tilewright::planner {
namespace {

/// "an integer from 16 to 1024"
std::string range_text(const DeviceField& field) {
    if (field.least == field.most) return fmt::format("{}, as on every Hopper GPU", field.least);
    if (std::holds_alternative<double DeviceDescription::*>(field.member)) {
        return fmt::format("a number from {:g} to {:g}", field.least, field.most);
    }
    return fmt::format("an integer from {:.0f} to {:.0f}", field.least, field.most);
}

/// Whether `text` is a value of the field; it is stored then.
bool store(const DeviceField& field, std::string_view text, DeviceDescription& device) {
    double value = 0;
    // Unlike strtod, it reads the same number in every locale.
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return false;
    if (!(value >= field.least && value <= field.most)) return false;  // NaN neither
    return std::visit(
        [&](auto member) {
            using Number = std::remove_reference_t<decltype(device.*member)>;
            if (std::is_integral_v<Number> && value != std::floor(value)) return false;
            device.*member = static_cast<Number>(value);
            return true;
        },
        field.member);
}

/// In the order of the tables.
std::vector<std::string_view> names_of_fields() {
    std::vector<std::string_view> names{"name", "driver_name"};
    for (const DeviceField& field : device_fields()) names.push_back(field.name);
    return names;
}

/// `lines`: of each field, the first.
void read_row(const TsvRow& row, std::map<std::string_view, int>& lines, ParsedDevice& parsed) {
    constexpr std::size_t longest_text = 60;
    const std::string_view name = row.cells[0], value = row.cells[1];
    const auto given = [&] { return fmt::format("{} = '{}'", name, shown(value)); };
    const auto report = [&](std::string what, std::string expected) {
        parsed.problems.push_back({row.line, std::move(what), std::move(expected)});
    };
    const auto [first, is_first] = lines.emplace(name, row.line);
    const auto field = std::ranges::find(device_fields(), name, &DeviceField::name);
    const bool is_text = name == "name" || name == "driver_name";
    if (!is_text && field == device_fields().end()) {
        report(fmt::format("the unknown field '{}'", shown(name)),
               fmt::format("one of {}", fmt::join(names_of_fields(), ", ")));
    } else if (!is_first) {
        report(fmt::format("{} again", name), fmt::format("one line for it, as line {} is", first->second));
    } else if (is_text) {
        if (value.empty() || value.size() > longest_text || shown(value) != value) {
            report(given(), fmt::format("1 to {} printable ASCII characters", longest_text));
        }
        (name == "name" ? parsed.device.name : parsed.driver_name) = value;
    } else if (!store(*field, value, parsed.device)) {
        report(given(), range_text(*field));
    } else if (row.cells[3].starts_with("assumed")) {
        parsed.device.assumed.emplace_back(name);
    }
}

/// After the last row.
void check_complete(const std::map<std::string_view, int>& lines, ParsedDevice& parsed) {
    for (const std::string_view name : names_of_fields()) {
        if (!lines.contains(name)) parsed.problems.push_back({0, fmt::format("no {}", name), "a line for it"});
    }
    const auto pairs = lines.find("cluster_2_sms");
    const DeviceDescription& device = parsed.device;
    if (pairs != lines.end() && device.sms > 0 && device.cluster_2_sms > device.sms) {
        parsed.problems.push_back({pairs->second, fmt::format("cluster_2_sms = {}", device.cluster_2_sms),
                                   fmt::format("at most sms, {}", device.sms)});
    }
}

const std::vector<ParsedDevice>& parsed_devices() {
    static const std::vector<ParsedDevice> devices = [] {
        std::vector<ParsedDevice> list;
        for (std::string_view table : device_tables) {
            ParsedDevice parsed = parse_device(table);
            if (!parsed.problems.empty()) {
                throw std::logic_error(
                    fmt::format("src/plan/devices: {}: {}", parsed.device.name, parsed.problems.front().text()));
            }
            list.push_back(std::move(parsed));
        }
        return list;
    }();
    return devices;
}

/// "NVIDIA H200 NVL" begins with "H200" and with "H200 NVL", and not with "H20"; "NVIDIA H20-3e" begins with "H20".
bool begins_with(std::string_view reported, std::string_view name) {
    constexpr std::string_view vendor = "NVIDIA ";
    if (reported.starts_with(vendor)) reported.remove_prefix(vendor.size());
    if (!reported.starts_with(name)) return false;
    return reported.size() == name.size() || std::isalnum(static_cast<unsigned char>(reported[name.size()])) == 0;
}

/// By the rules of the tables in src/plan/devices.
DeviceDescription scaled_h200(const ReportedGpu& gpu) {
    DeviceDescription device = h200();
    const double sms = static_cast<double>(gpu.sms) / device.sms;
    const double clock = gpu.clock_hertz > 0 ? gpu.clock_hertz / device.boost_hertz : 1;
    device.name = gpu.name;
    device.sms = gpu.sms;
    device.cluster_2_sms = gpu.sms / 2 * 2;
    device.boost_hertz *= clock;
    device.l2_bytes_per_second *= sms * clock;
    if (gpu.l2_bytes > 0) device.l2_bytes = gpu.l2_bytes;
    device.assumed.clear();
    for (const DeviceField& field : device_fields()) {
        if (field.name != "sms" && field.name != "shared_bytes_per_block") device.assumed.emplace_back(field.name);
    }
    if (gpu.clock_hertz > 0) std::erase(device.assumed, "boost_hertz");
    if (gpu.l2_bytes > 0) std::erase(device.assumed, "l2_bytes");
    return device;
}

// ---- A device of the user's own: a file in the format of the tables that ship

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

const std::vector<DeviceField>& device_fields() {
    using D = DeviceDescription;
    // No cluster of up to 8 blocks fits on fewer than 10 SMs (tile_distribution.cpp); the smallest part of an H100 has
    // 16. The other ranges are far wider than any Hopper GPU's values.
    static const std::vector<DeviceField> fields{
        {"sms", &D::sms, 16, 1024},
        {"boost_hertz", &D::boost_hertz, 1e8, 1e11},
        {"power_hertz", &D::power_hertz, 1e8, 1e11},
        {"fp8_products_per_clock", &D::fp8_products_per_clock, 1, 65536},
        {"bf16_products_per_clock", &D::bf16_products_per_clock, 1, 65536},
        {"memory_bytes_per_second", &D::memory_bytes_per_second, 1e10, 1e14},
        {"l2_bytes_per_second", &D::l2_bytes_per_second, 1e10, 1e15},
        {"l2_bytes_per_clock", &D::l2_bytes_per_clock, 1, 4096},
        {"l2_bytes", &D::l2_bytes, 1 << 20, 1 << 30},
        {"written_byte", &D::written_byte, 0.1, 10},
        {"memory_latency", &D::memory_latency, 1e-8, 1e-4},
        {"shared_bytes_per_block", &D::shared_bytes_per_block, hopper::shared_bytes_limit, hopper::shared_bytes_limit},
        {"cluster_2_sms", &D::cluster_2_sms, 2, 1024},
        {"start_seconds", &D::start_seconds, 1e-8, 1e-3},
        {"launch_seconds", &D::launch_seconds, 1e-8, 1e-3}};
    return fields;
}

ParsedDevice parse_device(std::string_view text) {
    ParsedDevice parsed;
    const Tsv table = parse_tsv(text, {"field", "value", "unit", "source"});
    parsed.problems = table.problems;
    std::map<std::string_view, int> lines;
    for (const TsvRow& row : table.rows) read_row(row, lines, parsed);
    if (table.problems.empty() || !table.rows.empty()) check_complete(lines, parsed);  // not after a wrong header
    return parsed;
}

DeviceDescription recognise(const ReportedGpu& gpu) {
    const ParsedDevice* found = nullptr;
    for (const ParsedDevice& known : parsed_devices()) {
        const bool longer = found == nullptr || known.driver_name.size() > found->driver_name.size();
        if (longer && begins_with(gpu.name, known.driver_name)) found = &known;
    }
    return found != nullptr && found->device.sms == gpu.sms ? found->device : scaled_h200(gpu);
}

}  // namespace tilewright::planner

namespace tilewright {

const std::vector<DeviceDescription>& known_devices() {
    static const std::vector<DeviceDescription> devices = [] {
        std::vector<DeviceDescription> list;
        for (const planner::ParsedDevice& parsed : planner::parsed_devices()) list.push_back(parsed.device);
        return list;
    }();
    return devices;
}

const DeviceDescription& h200() { return known_devices().front(); }

const DeviceDescription& device_named(std::string_view name) {
    std::string names;
    for (const DeviceDescription& device : known_devices()) {
        if (device.name == name) return device;
        names += (names.empty() ? "" : ", ") + device.name;
    }
    throw Error({Finding{
        .operand = "device", .given = fmt::format("'{}'", name), .expected = "one of " + names, .advice = {}}});
}

bool is_device_file(std::string_view word) {
    return word.find('/') != std::string_view::npos || word.ends_with(".tsv");
}

DeviceDescription read_device(const std::string& path) {
    planner::ParsedDevice parsed = planner::parse_device(planner::contents(path));
    if (parsed.problems.empty()) return std::move(parsed.device);
    std::vector<Finding> findings;
    for (const planner::TsvProblem& problem : parsed.problems) {
        const std::string where = problem.line > 0 ? fmt::format("line {} of ", problem.line) : "";
        findings.push_back({.operand = "device",
                            .given = fmt::format("{} in {}'{}'", problem.given, where, path),
                            .expected = problem.expected,
                            .advice = planner::format_advice});
        if (findings.size() == planner::most_findings) break;
    }
    throw Error(std::move(findings));
}

}  // namespace tilewright
