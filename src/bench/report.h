// Tables, means and JSON records of `tilewright bench` and `tilewright tune`.
#pragma once

#include <string>
#include <vector>

#include "bench/result.h"
#include "bench/tune_shape.h"
#include "output/table.h"

namespace tilewright::bench {

/// "tensor:tensor, unpromoted".
std::string recipe_text(const Settings& settings);

/// For one shape or more; on a GPU of one operation.
output::Table result_table(const std::vector<BenchShape>& shapes, const Run& run);

/// A line for the result; on the CPU another one for each baseline.
std::string result_lines(const output::Table& table, const Result& result, const Run& run);

/// One JSON object for Tilewright and for each baseline that was timed, each on its own line.
std::string result_records(const Result& result, const Run& run);

/// The same for every tile that `tune` tried.
std::string tune_records(const TunedShape& tuned, const Run& run);

/// "m >= 4096: 7 shapes, 1.050x the speed of cuBLASLt in the geometric mean, worst 0.990x at [...]", a line for each
/// class of shapes. Empty without times of cuBLASLt.
std::string summary(const std::vector<Result>& results, const Run& run);

}  // namespace tilewright::bench
