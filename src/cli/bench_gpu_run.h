// All shapes of one recipe on a GPU, a line of the table each.
#pragma once

#include "cli/bench_gpu_report.h"

namespace tilewright::cli {

/// Prints table and summary ("-": JSON lines to stdout instead) and appends JSON lines to the file, if one is named.
/// False if a result was wrong.
bool run_on_gpu(GpuBench& bench, const std::vector<BenchShape>& shapes, const GpuRun& run,
                const std::string& json_path);

/// Throws std::runtime_error where the file cannot be written.
void append_text(const std::string& path, const std::string& text);

}  // namespace tilewright::cli
