// One shape on the CPU: the result is checked, then the call is timed, and OpenBLAS's sgemm in the same run.
#pragma once

#include "bench/result.h"

namespace tilewright::bench {

/// Throws Error when the backend cannot run the call.
Result run_on_cpu(const BenchShape& shape, const Settings& settings);

}  // namespace tilewright::bench
