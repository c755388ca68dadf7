// The table, the geometric means and the JSON lines of `tilewright bench` on a GPU.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu_bench.h"
#include "bench/peers_table.h"
#include "output/table.h"

namespace tilewright::bench {

/// What all lines of a run have in common.
struct GpuRun {
    GpuSettings settings{};
    measure::Flush flush = measure::Flush::clean;
    Peaks peaks{};
    std::string device{};
    std::string date{};          // yyyy-mm-dd
    std::string command{};       // what repeats the run
    std::string blas_version{};  // empty: not found
};

/// "tensor:tensor, unpromoted".
std::string recipe_text(const GpuSettings& settings);

/// For one shape or more, of one operation.
output::Table gpu_table(const std::vector<BenchShape>& shapes, const GpuSettings& settings);
std::string gpu_line(const output::Table& table, const GpuResult& result, const GpuRun& run);

/// One for Tilewright and one for each peer that was timed.
std::vector<nlohmann::ordered_json> gpu_json(const GpuResult& result, const GpuRun& run);

/// "m >= 4096: 7 shapes, 1.05x DeepGEMM in the geometric mean, worst 0.99x at [...]", a line for each class of shapes.
std::string gpu_summary(const std::vector<GpuResult>& results, const GpuRun& run);

/// Today, in UTC.
std::string today();

/// How this program was called, without its folder.
std::string command_line();

}  // namespace tilewright::bench
