// Runs a problem on a backend.
#pragma once

#include <tilewright/problem.h>

#include <functional>

namespace tilewright {

struct RunOptions {
    Backend backend = Backend::automatic;
    void* stream = nullptr;  // GPU: the CUstream to launch on
    int threads = 0;         // CPU: OpenMP threads; 0 = OpenMP's own choice
    /// GPU: the kernel may start while the one ahead of it in the stream ends, and waits for it inside (programmatic
    /// dependent launch). The result is the same; what a sequence of short kernels gains, `tilewright bench --overlap`
    /// shows.
    bool overlap = false;
    /// CPU: called by the calling thread about every 50 ms of a long call. Where it returns true, the call ends by
    /// `Cancelled`; where it throws, by that exception. D is then written in part, never outside its elements.
    std::function<bool()> cancelled{};
};

/// Computes D. Throws Error, before writing anything, with every finding of `validate`.
void run(const Problem& problem, const RunOptions& options = {});

}  // namespace tilewright
