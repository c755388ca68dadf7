#include "cuda/backend.h"

#include <tilewright/error.h>

#include <atomic>

#include "cuda/runtime.h"

namespace tilewright::cuda {
namespace {

// A process that has never run anything on a GPU does not open the driver only to learn that nothing can be repeated.
std::atomic<bool> has_run{false};

StreamHandle handle(void* stream) { return static_cast<StreamHandle>(stream); }
InStream order(const RunOptions& options) { return {handle(options.stream), options.overlap, options.weights_ready}; }

}  // namespace

CacheAnswer ask_call_cache(const Problem& problem, const RunOptions& options) {
    if (!has_run.load(std::memory_order_relaxed) || options.device != nullptr) return CacheAnswer::nothing;
    Runtime& shared = runtime();
    if (shared.repeat(problem, order(options), options.workspace)) return CacheAnswer::launched;
    return shared.knows_kind(problem) ? CacheAnswer::known_kind : CacheAnswer::nothing;
}

void run(const Problem& problem, const GpuCall& call, const RunOptions& options) {
    const Workspace& workspace = options.workspace;
    if (options.device != nullptr) return runtime().run_as(problem, call, *options.device, order(options), workspace);
    runtime().run(problem, call, order(options), workspace);
    has_run.store(true, std::memory_order_relaxed);
}

void run(const Geometry& geometry, const hopper::Kernel& tile, int device, void* stream, const Workspace& workspace) {
    runtime().run(geometry, tile, {.device = device, .stream = handle(stream), .workspace = workspace});
}

void run(const std::vector<launch::OtherLaunch>& launches, int device, void* stream, bool overlap) {
    runtime().run(launches, {.device = device, .stream = handle(stream), .overlap = overlap});
}

const DeviceDescription& present_device() {
    static const DeviceDescription device = [] {
        try {
            return describe_device(driver(), 0);
        } catch (const Error&) {
            return h200();
        }
    }();
    return device;
}

}  // namespace tilewright::cuda
