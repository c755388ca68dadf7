// All shapes of one recipe on a GPU, a line of the table each.
#pragma once

#include "bench/gpu_report.h"

namespace tilewright::cli {

/// Prints table and summary ("-": JSON lines to stdout instead) and appends JSON lines to the file, if one is named.
/// False if a result was wrong.
bool run_on_gpu(bench::GpuBench& bench, const std::vector<bench::BenchShape>& shapes, const bench::GpuRun& run,
                const std::string& json_path);

}  // namespace tilewright::cli
