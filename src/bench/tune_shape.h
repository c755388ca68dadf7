// Measures tiles for one shape. All must return the same bits, and `tilewright tune` stores the fastest.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu_bench.h"

namespace tilewright::bench {

struct TriedTile {
    Plan plan{};  // as the model sees it
    measure::Measurement measured{};
};

struct TunedShape {
    BenchShape shape{};
    std::string key{};               // of the problem in tuned rows
    std::vector<TriedTile> tried{};  // the planner's choice first
    std::string failure{};           // a wrong result, with its tile; then nothing was timed

    const TriedTile& best() const;
};

/// Which candidates are measured, in addition to the planner's choice.
struct Candidates {
    std::size_t most = 0;  // number of the model's best tiles to time; 0: all
    bool packed = false;   // only tiles with shipped kernels, so that nothing is compiled
};

TunedShape tune_shape(GpuBench& bench, const BenchShape& shape, const Settings& settings, const Candidates& candidates);

/// A row of src/plan/tuned: device, problem, tile, date, command.
std::string tuned_row(const TunedShape& tuned, const std::string& device, const std::string& date,
                      const std::string& command);

/// A table of the candidates, fastest first.
std::string tried_text(const TunedShape& tuned);

}  // namespace tilewright::bench
