// One shape on a GPU: the result is checked, then the call is timed, and cuBLASLt in the same run.
#pragma once

#include <tilewright/plan.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bench/result.h"
#include "hopper/description/kernel.h"
#include "measure/power.h"

namespace tilewright::bench {

class GpuBench {
public:
    /// Device 0. Throws Error where there is none.
    explicit GpuBench(measure::Flush flush);

    Result run(const BenchShape& shape, const Settings& settings);

    /// The source of the watts of continuous load, or the missing part.
    bool measures_power() { return power_meter() != nullptr; }
    std::string power_source();

    measure::Device& device() { return device_; }
    /// Throws Error without CUPTI, which records all kernels from the first call of this on.
    measure::Stopwatch& stopwatch();
    /// The description of the GPU for the planner and the floor.
    const DeviceDescription& description() const { return description_; }
    /// bf16 is multiplied at half the rate of fp8.
    Peaks peaks(const Recipe& recipe) const;

private:
    /// Null, and a reason in no_power_, where there is none.
    measure::PowerMeter* power_meter();

    measure::Device device_;
    measure::Flush flush_;
    std::optional<measure::Stopwatch> stopwatch_;
    std::unique_ptr<measure::PowerMeter> power_meter_;
    std::string no_power_;
    DeviceDescription description_;
};

ProblemSizes gpu_sizes(const BenchShape& shape, const Settings& settings);

/// For calls that `validate` accepts.
GpuOperands gpu_operands(const BenchShape& shape, const Settings& settings);

/// The hash of D after one call, ahead of which D is poisoned. Waits for the GPU. Throws Error if a kernel of
/// `cuda::runtime()` left a report.
std::uint64_t output_hash(const measure::Device& device, GpuOperands& operands, const measure::Call& call);

/// The gates' verdict on D in host memory, for sampled tiles and all edges; empty if nothing is wrong.
std::string judged_output(const GpuOperands& operands, const hopper::Kernel& tile);

}  // namespace tilewright::bench
