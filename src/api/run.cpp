// The one way a call travels: validated, lowered to geometry, run by a backend.
#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "cpu/exact/exact.h"
#include "cpu/fast/fast.h"
#include "cuda/backend.h"
#include "plan/choose.h"
#include "problem/addresses.h"
#include "problem/geometry.h"
#include "problem/gpu_call.h"
#include "problem/workspace.h"

namespace tilewright {

const DeviceDescription& default_device() { return cuda::present_device(); }

namespace {

void require(std::vector<Finding> findings) {
    if (!findings.empty()) throw Error(std::move(findings));
}

/// The call cache is asked before anything else, because validation takes longer than a launch.
void run_on_gpu(const Problem& problem, const RunOptions& options) {
    const cuda::CacheAnswer known = cuda::ask_call_cache(problem, options);
    if (known == cuda::CacheAnswer::launched) return;
    require(known == cuda::CacheAnswer::known_kind ? validate_addresses(problem, options.backend)
                                                   : validate(problem, options.backend));
    const GpuCall call = gpu_call(problem, options.workspace.data);
    require(check_workspace(problem, call.before, options.workspace));
    cuda::run(problem, call, options);
}

void multiply_on_cpu(const Problem& problem, const RunOptions& options) {
    require_threads(options.threads);
    const Geometry described = geometry(problem);
    const bool invariant = problem.reproducibility == Reproducibility::invariant;
    if (problem.arithmetic != Arithmetic::bit_exact && !invariant) {
        return cpu::run_fast(described, {.threads = options.threads, .cancelled = options.cancelled});
    }
    const DeviceDescription& device = options.device != nullptr ? *options.device : default_device();
    const std::vector<std::int64_t> k_splits = planner::planned_k_splits(problem, device);
    cpu::run_exact(described, {.threads = options.threads, .cancelled = options.cancelled, .k_splits = k_splits});
}

/// On the CPU packed weights are unpacked first: the order of the additions is the same.
void run_packed(const Problem& problem, const RunOptions& options) {
    require(validate(problem, options.backend));
    const OwnedOperand weights = unpack_weights(problem.b.packed);
    Problem unpacked = problem;
    unpacked.b = weights;
    run(unpacked, options);
}

}  // namespace

void run(const Problem& problem, const RunOptions& options) {
    if (resolve(problem, options.backend) == Backend::hopper) return run_on_gpu(problem, options);
    if (problem.b.packed.given() || problem.a.packed.given()) return run_packed(problem, options);
    require(validate(problem, options.backend));
    multiply_on_cpu(problem, options);
}

}  // namespace tilewright
