// The one way a call travels: validated, lowered to geometry, run by a backend.
#include <tilewright/run.h>

#include <cstdint>
#include <vector>

#include "cpu/exact/exact.h"
#include "cpu/fast/fast.h"
#include "cuda/backend.h"
#include "plan/cuts.h"
#include "problem/addresses.h"
#include "problem/geometry.h"

namespace tilewright {

void run(const Problem& problem, const RunOptions& options) {
    const bool on_gpu = resolve(problem, options.backend) == Backend::hopper;
    if (on_gpu && cuda::repeat(problem, options)) return;
    const bool known = on_gpu && cuda::knows_kind(problem);
    std::vector<Finding> findings =
        known ? validate_addresses(problem, options.backend) : validate(problem, options.backend);
    if (!findings.empty()) throw Error(std::move(findings));
    const bool bit_exact =
        problem.arithmetic == Arithmetic::bit_exact || problem.reproducibility == Reproducibility::invariant;
    if (on_gpu) {
        cuda::run(problem, options);
    } else if (bit_exact) {
        const std::vector<std::int64_t> k_splits = planner::planned_cuts(problem);
        cpu::run_exact(geometry(problem),
                       {.threads = options.threads, .cancelled = options.cancelled, .k_splits = k_splits});
    } else {
        cpu::run_fast(geometry(problem), {.threads = options.threads, .cancelled = options.cancelled});
    }
}

}  // namespace tilewright
