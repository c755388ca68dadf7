// Device descriptions read from tables of (field, value, unit, source): those that ship, and a user's own.
#pragma once

#include <tilewright/plan.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plan/tsv.h"

namespace tilewright::planner {

struct ParsedDevice {
    DeviceDescription device;
    std::string driver_name;           // how cuDeviceGetName begins, after "NVIDIA "
    std::vector<TsvProblem> problems;  // one per mistake, with its line
};

/// Fields whose source begins with "assumed" are listed in `DeviceDescription::assumed`. A value outside of the range
/// in which the planner's arithmetic holds is a problem, e.g. 0 SMs.
ParsedDevice parse_device(std::string_view text);

/// A number of a description, and the values that it may have.
struct DeviceField {
    std::string_view name;
    std::variant<int DeviceDescription::*, std::int64_t DeviceDescription::*, double DeviceDescription::*> member;
    double least;
    double most;
};

/// All numbers, in the order of the tables.
const std::vector<DeviceField>& device_fields();

/// A GPU as its driver describes it.
struct ReportedGpu {
    std::string name;  // "NVIDIA H100 80GB HBM3"
    int sms = 0;
    double clock_hertz = 0;     // highest SM clock; 0: unknown
    std::int64_t l2_bytes = 0;  // 0: unknown
};

/// The known device with the longest driver name that `gpu.name` begins with, if it has as many SMs. Any other Hopper
/// GPU is the H200 scaled by the number of SMs and by its other known fields, under the driver's name. Tuned rows do
/// not apply to it.
DeviceDescription recognise(const ReportedGpu& gpu);

}  // namespace tilewright::planner
