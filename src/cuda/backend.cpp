#include "cuda/backend.h"

#include <atomic>

#include "cuda/runtime.h"

namespace tilewright::cuda {
namespace {

// A process that never ran anything on a GPU does not open the driver to learn that nothing can be repeated.
std::atomic<bool> has_run{false};

StreamHandle handle(void* stream) { return static_cast<StreamHandle>(stream); }
InStream order(const RunOptions& options) { return {handle(options.stream), options.overlap}; }

}  // namespace

bool repeat(const Problem& problem, const RunOptions& options) {
    return has_run.load(std::memory_order_relaxed) && runtime().repeat(problem, order(options));
}

bool knows_kind(const Problem& problem) {
    return has_run.load(std::memory_order_relaxed) && runtime().knows_kind(problem);
}

void run(const Problem& problem, const RunOptions& options) {
    runtime().run(problem, order(options));
    has_run.store(true, std::memory_order_relaxed);
}

void run(const Geometry& geometry, const hopper::Tile& tile, int device, void* stream) {
    runtime().run(geometry, tile, {.device = device, .stream = handle(stream)});
}

}  // namespace tilewright::cuda
