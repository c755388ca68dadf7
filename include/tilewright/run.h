// Runs a problem on a backend, and the one exception type of the library.
#pragma once

#include <tilewright/problem.h>

#include <stdexcept>
#include <vector>

namespace tilewright {

/// What went wrong, with all findings when the call itself was at fault.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string& what) : std::runtime_error(what) {}
    explicit Error(std::vector<Finding> findings);

    /// Empty when the call was right and the machine was not (no driver, out of memory).
    const std::vector<Finding>& findings() const { return findings_; }

private:
    std::vector<Finding> findings_;
};

struct RunOptions {
    Backend backend = Backend::automatic;
    void* stream = nullptr;  // GPU: the CUstream to launch on
    int threads = 0;         // CPU: OpenMP threads; 0 = OpenMP's own choice
    /// GPU: the kernel may start while the one ahead of it in the stream ends, and waits for it inside (programmatic
    /// dependent launch). The result is the same; what a sequence of short kernels gains, `tilewright bench --overlap`
    /// shows.
    bool overlap = false;
};

/// Computes D. Throws Error, before writing anything, with every finding of `validate`.
void run(const Problem& problem, const RunOptions& options = {});

}  // namespace tilewright
