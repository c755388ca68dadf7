// One shape on a GPU: the result is checked, then the call is timed, and cuBLASLt in the same run.
#pragma once

#include <tilewright/plan.h>

#include <string>

#include "bench/result.h"
#include "hopper/tile/tile.h"

namespace tilewright::bench {

class GpuBench {
public:
    /// Device 0. Throws Error where there is none, or no CUPTI.
    explicit GpuBench(measure::Flush flush);

    Result run(const BenchShape& shape, const Settings& settings);

    measure::Device& device() { return device_; }
    measure::Stopwatch& stopwatch() { return stopwatch_; }
    /// What the planner and the floor take the GPU for.
    const DeviceDescription& description() const { return description_; }
    Peaks peaks() const;

private:
    measure::Device device_;
    measure::Stopwatch stopwatch_;
    DeviceDescription description_;
};

ProblemSizes gpu_sizes(const BenchShape& shape, const Settings& settings);

/// For what `validate` takes.
GpuOperands gpu_operands(const BenchShape& shape, const Settings& settings);

/// What the gates say of D as it is in host memory, of sampled tiles and all edges; empty if nothing.
std::string judged_output(const GpuOperands& operands, const hopper::Tile& tile);

}  // namespace tilewright::bench
