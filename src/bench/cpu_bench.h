// Checks one shape, then times it, and its peers beside it.
#pragma once

#include <tilewright/problem.h>

#include <optional>
#include <string>
#include <vector>

#include "bench/shapes.h"
#include "bench/work.h"

namespace tilewright::bench {

struct BenchSettings {
    Recipe recipe{};
    Layout layout = Layout::nt;
    Format output = Format::bf16;
    Arithmetic arithmetic = Arithmetic::fast;
    Backend backend = Backend::cpu;
    int threads = 0;       // CPU; 0: OpenMP's own choice
    int repeats = 12;      // calls that are timed ...
    double seconds = 2.0;  // ... but none is begun after this much time, and at least 3 are made
    bool warm = false;     // leave the operands in the caches from call to call
    bool peers = false;
};

struct Timing {
    std::string peer{};  // "" is Tilewright
    double seconds = 0;  // median
    int calls = 0;
};

struct BenchResult {
    BenchShape shape{};
    Work work{};
    std::vector<Timing> timings{};  // Tilewright's first
    std::string failure{};          // what the gates said; then nothing was timed
};

/// Throws Error when the backend cannot run the call.
BenchResult run_bench(const BenchShape& shape, const BenchSettings& settings);

}  // namespace tilewright::bench
