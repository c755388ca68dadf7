// The one way a call travels: validated, lowered to geometry, run by a backend.
#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <cstdint>
#include <vector>

#include "cpu/exact/exact.h"
#include "cpu/fast/fast.h"
#include "cuda/backend.h"
#include "plan/k_splits.h"
#include "problem/addresses.h"
#include "problem/geometry.h"
#include "problem/workspace.h"

namespace tilewright {

const DeviceDescription& default_device() { return cuda::present_device(); }

namespace {

/// On the CPU packed weights are unpacked first: the order of the additions is the same.
void run_packed(const Problem& problem, const RunOptions& options) {
    std::vector<Finding> findings = validate(problem, options.backend);
    if (!findings.empty()) throw Error(std::move(findings));
    const OwnedOperand weights = unpack_weights(problem.b.packed);
    Problem unpacked = problem;
    unpacked.b = weights;
    run(unpacked, options);
}

}  // namespace

void run(const Problem& problem, const RunOptions& options) {
    const bool on_gpu = resolve(problem, options.backend) == Backend::hopper;
    if (!on_gpu && (problem.b.packed.given() || problem.a.packed.given())) return run_packed(problem, options);
    const cuda::Known known = on_gpu ? cuda::repeat(problem, options) : cuda::Known::nothing;
    if (known == cuda::Known::launched) return;
    std::vector<Finding> findings =
        known == cuda::Known::kind ? validate_addresses(problem, options.backend) : validate(problem, options.backend);
    if (findings.empty() && on_gpu) findings = check_workspace(problem, options.workspace);
    if (!findings.empty()) throw Error(std::move(findings));
    const bool bit_exact =
        problem.arithmetic == Arithmetic::bit_exact || problem.reproducibility == Reproducibility::invariant;
    if (on_gpu) {
        cuda::run(problem, options);
    } else if (bit_exact) {
        const DeviceDescription& device = options.device != nullptr ? *options.device : default_device();
        const std::vector<std::int64_t> k_splits = planner::planned_k_splits(problem, device);
        cpu::run_exact(geometry(problem),
                       {.threads = options.threads, .cancelled = options.cancelled, .k_splits = k_splits});
    } else {
        cpu::run_fast(geometry(problem), {.threads = options.threads, .cancelled = options.cancelled});
    }
}

}  // namespace tilewright
