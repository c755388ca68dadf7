#include "plan/devices.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <stdexcept>
#include <variant>

#include "plan/tables.h"
#include "plan/tsv.h"

namespace tilewright::planner {
namespace {

using Field = std::variant<int*, std::int64_t*, double*>;

std::map<std::string_view, Field> number_fields(DeviceDescription& d) {
    return {{"sms", &d.sms},
            {"boost_hertz", &d.boost_hertz},
            {"power_hertz", &d.power_hertz},
            {"fp8_products_per_clock", &d.fp8_products_per_clock},
            {"bf16_products_per_clock", &d.bf16_products_per_clock},
            {"memory_bytes_per_second", &d.memory_bytes_per_second},
            {"l2_bytes_per_second", &d.l2_bytes_per_second},
            {"l2_bytes_per_clock", &d.l2_bytes_per_clock},
            {"l2_bytes", &d.l2_bytes},
            {"memory_latency", &d.memory_latency},
            {"shared_bytes_per_block", &d.shared_bytes_per_block},
            {"cluster_2_sms", &d.cluster_2_sms},
            {"start_seconds", &d.start_seconds},
            {"launch_seconds", &d.launch_seconds}};
}

/// Why `text` is no value for the field; empty when it was stored.
std::string store(const Field& field, std::string_view text) {
    const std::string copy(text);
    char* end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    if (copy.empty() || *end != '\0' || !std::isfinite(value)) return fmt::format("'{}' is not a number", text);
    if (!(value > 0)) return fmt::format("{} is not positive", text);
    if (auto* const* target = std::get_if<double*>(&field)) {
        **target = value;
        return "";
    }
    if (value != std::floor(value)) return fmt::format("{} is not an integer", text);
    if (auto* const* target = std::get_if<int*>(&field)) {
        if (value > std::numeric_limits<int>::max()) return fmt::format("{} is too large", text);
        **target = static_cast<int>(value);
    } else {
        if (value > 0x1p62) return fmt::format("{} is too large", text);
        **std::get_if<std::int64_t*>(&field) = static_cast<std::int64_t>(value);
    }
    return "";
}

}  // namespace

ParsedDevice parse_device(std::string_view text) {
    ParsedDevice parsed;
    std::map<std::string_view, Field> missing = number_fields(parsed.device);
    const Tsv table = parse_tsv(text, {"field", "value", "unit", "source"});
    parsed.problems = table.problems;
    for (const TsvRow& row : table.rows) {
        const std::string_view name = row.cells[0];
        if (name == "name" || name == "driver_name") {
            (name == "name" ? parsed.device.name : parsed.driver_name) = row.cells[1];
            continue;
        }
        const auto field = missing.find(name);
        if (field == missing.end()) {
            parsed.problems.push_back(fmt::format("line {}: {}: unknown, or given twice", row.line, name));
            continue;
        }
        const std::string problem = store(field->second, row.cells[1]);
        if (!problem.empty()) parsed.problems.push_back(fmt::format("line {}: {}: {}", row.line, name, problem));
        if (row.cells[3].starts_with("assumed")) parsed.device.assumed.emplace_back(name);
        missing.erase(field);
    }
    if (parsed.device.name.empty()) parsed.problems.emplace_back("name: missing");
    if (parsed.driver_name.empty()) parsed.problems.emplace_back("driver_name: missing");
    for (const auto& [name, field] : missing) parsed.problems.push_back(fmt::format("{}: missing", name));
    return parsed;
}

namespace {

const std::vector<ParsedDevice>& parsed_devices() {
    static const std::vector<ParsedDevice> devices = [] {
        std::vector<ParsedDevice> list;
        for (std::string_view table : device_tables) {
            ParsedDevice parsed = parse_device(table);
            if (!parsed.problems.empty()) {
                throw std::logic_error(
                    fmt::format("src/plan/devices: {}: {}", parsed.device.name, fmt::join(parsed.problems, "; ")));
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
    for (const auto& [field, value] : number_fields(device)) {
        if (field != "sms" && field != "shared_bytes_per_block") device.assumed.emplace_back(field);
    }
    if (gpu.clock_hertz > 0) std::erase(device.assumed, "boost_hertz");
    if (gpu.l2_bytes > 0) std::erase(device.assumed, "l2_bytes");
    return device;
}

}  // namespace

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

}  // namespace tilewright
