// Device descriptions read from tables of (field, value, unit, source).
#pragma once

#include <tilewright/plan.h>

#include <string>
#include <string_view>
#include <vector>

namespace tilewright::planner {

struct ParsedDevice {
    DeviceDescription device;
    std::vector<std::string> problems;  // "line 7: sms: 'many' is no number", "l2_bytes: missing"
};

ParsedDevice parse_device(std::string_view text);

}  // namespace tilewright::planner
