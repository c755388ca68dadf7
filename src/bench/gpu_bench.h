// One shape on a GPU: the result is checked, then the call is timed, and cuBLASLt beside it in the same run.
#pragma once

#include <tilewright/plan.h>

#include <optional>
#include <string>

#include "bench/gpu_operands.h"
#include "bench/shapes.h"
#include "bench/work.h"
#include "hopper/tile/tile.h"
#include "measure/chain.h"
#include "measure/timing.h"

namespace tilewright::bench {

struct GpuSettings {
    Recipe recipe{};
    Accumulation accumulation = Accumulation::promoted;
    Reproducibility reproducibility = Reproducibility::repeatable;
    Format output = Format::bf16;
    ScaleLayout scales = ScaleLayout::m;
    std::optional<PlannedTile> tile{};  // else the planner's choice
    int sm_limit = 0;
    int repeats = 12;
    bool peers = false;
    bool overlap = false;  // also time chains of calls, which overlap and do not
};

struct GpuResult {
    BenchShape shape{};
    PlannedTile tile{};
    Work work{};
    measure::Measurement ours{};
    std::optional<measure::Measurement> blas_tensor{};  // cuBLASLt
    std::optional<measure::Measurement> blas_blocks{};
    std::optional<measure::Measurement> stream{};  // of B's values, by TMA and no more
    std::optional<measure::ChainTimes> chain{};
    std::string note{};     // why a peer is missing
    std::string failure{};  // what the gates said; then nothing was timed
};

class GpuBench {
public:
    /// Device 0. Throws Error where there is none, or no CUPTI.
    explicit GpuBench(measure::Flush flush);

    GpuResult run(const BenchShape& shape, const GpuSettings& settings);

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

ProblemSizes gpu_sizes(const BenchShape& shape, const GpuSettings& settings);

/// For what `validate` takes.
GpuOperands gpu_operands(const BenchShape& shape, const GpuSettings& settings);

/// What the gates say of D as it is in host memory, of sampled tiles and all edges; empty if nothing.
std::string judged_output(const GpuOperands& operands, const hopper::Tile& tile);

}  // namespace tilewright::bench
