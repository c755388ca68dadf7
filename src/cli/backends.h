// The backends that this machine can use. For the others: why not, and what to do.
#pragma once

#include <tilewright/problem.h>

#include <string>
#include <vector>

#include "cuda/probe.h"

namespace tilewright::cli {

struct BackendStatus {
    Backend backend = Backend::cpu;
    bool available = false;
    std::string device{};  // the processor: "Intel(R) Xeon(R) ..., 2 cores", "NVIDIA H200"; empty if unavailable
    std::string why{};     // empty if available
    std::string advice{};
};

/// Every backend, the best one first.
std::vector<BackendStatus> backend_statuses(const cuda::Probe& found);

/// The best available backend, or the one of this name. Throws std::runtime_error if that one is unavailable.
BackendStatus chosen_backend(const std::string& word);

/// Throws std::runtime_error without a Hopper GPU. `what` needs one.
void require_gpu(const std::string& what);

/// The processor's own name for itself, e.g. "Intel(R) Xeon(R) Platinum 8480+".
std::string cpu_name();

/// Cores that this process may use.
int usable_cores();

}  // namespace tilewright::cli
