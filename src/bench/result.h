// The settings and results of a benchmark, on the CPU and on a GPU.
#pragma once

#include <tilewright/plan.h>

#include <optional>
#include <string>
#include <vector>

#include "bench/gpu_operands.h"
#include "bench/shapes.h"
#include "bench/work.h"
#include "measure/sequence.h"
#include "measure/timing.h"
#include "plan/planned_tile.h"

namespace tilewright::bench {

struct Settings {
    Recipe recipe{};
    Format output = Format::bf16;
    Backend backend = Backend::cpu;
    int repeats = 12;    // calls that are timed
    bool peers = false;  // also time other libraries in the same run
    Layout layout = Layout::nt;
    // CPU
    Arithmetic arithmetic = Arithmetic::fast;
    int threads = 0;       // 0: OpenMP's own choice.
    double seconds = 2.0;  // No call is begun after this much time, but at least 3 are made; GPU: see `sustained`.
    bool warm = false;     // Leave the operands in the caches from call to call.
    // GPU
    Accumulation accumulation = Accumulation::promoted;
    Reproducibility reproducibility = Reproducibility::repeatable;
    int wide_rows = 0;      // ProblemSizes has it
    bool unpacked = false;  // MXFP4 weights are packed at each call
    ScaleLayout scales = ScaleLayout::m;
    std::optional<planner::PlannedTile> tile{};  // else the planner's choice
    bool tuned_rows = true;                      // which may override its model
    int sm_limit = 0;
    bool accumulate = false;  // C is D, in place
    bool overlap = false;     // also time sequences of calls, which overlap and do not
    measure::Flush flush = measure::Flush::clean;
    bool sustained = false;  // continuous load instead: `seconds` of it, after as much to warm up
};

/// Who was timed.
enum class Peer {
    tilewright,
    sgemm,        // OpenBLAS on f32
    blas_tensor,  // cuBLASLt, a scale for each tensor
    blas_blocks,  // cuBLASLt, scales of 1x128 and 128x128
    blas_groups,  // cuBLASLt's grouped product of e4m3, a scale for each tensor
    blas_bf16_groups,
    stream,  // of B's values through TMA, without a product
};

struct Timing {
    Peer peer = Peer::tilewright;
    double seconds = 0;  // median
    double hertz = 0;    // SM clock, median; 0 on the CPU
    int calls = 0;
    double watts = 0;  // under continuous load; 0: not measured

    /// Energy of an operation under continuous load, for calls of `flops` operations; 0: not measured.
    double picojoules(double flops) const { return watts * seconds / flops * 1e12; }
};

struct Result {
    BenchShape shape{};
    std::optional<planner::PlannedTile> tile{};  // on a GPU
    Work work{};
    std::vector<Timing> timings{};  // Tilewright's first
    std::optional<measure::SequenceTimes> sequence{};
    std::string note{};     // why a baseline is missing
    std::string failure{};  // the gates' failure; then nothing was timed

    const Timing& ours() const { return timings.front(); }
    /// nullptr where it was not timed.
    const Timing* of(Peer peer) const;
};

/// The members that all records of a run have in common.
struct Run {
    Settings settings{};
    Peaks peaks{};
    std::string device{};
    std::string date{};          // yyyy-mm-dd
    std::string command{};       // the command that repeats the run
    std::string blas_version{};  // of cuBLASLt; empty: not found
    std::string started{};       // when, in UTC

    bool on_gpu() const { return settings.backend == Backend::hopper; }
};

}  // namespace tilewright::bench
