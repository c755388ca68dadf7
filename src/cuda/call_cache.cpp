#include "cuda/call_cache.h"

#include <stdexcept>

#include "cuda/same_problem.h"

namespace tilewright::cuda {
namespace {

bool fits(const Workspace& given, const Workspace& needed) {
    return needed.bytes == 0 || (given.data == needed.data && given.bytes >= needed.bytes);
}

}  // namespace

KernelHandle KnownKind::kernel(const hopper::Kernel& variant) {
    for (LoadedKernel& known : kernels_) {
        if (known.kernel == nullptr) known = {variant, device->kernel(variant)};
        if (known.tile == variant) return known.kernel;
    }
    throw std::logic_error("the tiles have more variants than a call remembers");
}

KnownCall* CallCache::find(const Problem& problem, const Workspace& workspace) {
    return calls_.find([&](const KnownCall& call) {
        // A kernel for one output does not apply alpha.
        return same_addresses(call.problem, problem) && same_kind(call.problem, problem) &&
               (call.problem.alpha == 1) == (problem.alpha == 1) && fits(workspace, call.workspace);
    });
}

KnownKind* CallCache::find_kind(const Problem& problem) {
    return kinds_.find([&](const KnownKind& kind) { return same_kind(kind.problem, problem); });
}

void CallCache::belong_to(std::uint64_t runtime) {
    if (owner_ == runtime) return;
    calls_.clear();
    kinds_.clear();
    owner_ = runtime;
}

}  // namespace tilewright::cuda
