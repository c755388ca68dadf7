// The engine by which the ranks of a torch process group would exchange tokens on this machine
// (docs/expert_parallel.md).
#pragma once

#include <string>

#include "cuda/probe.h"

namespace tilewright::cli {

struct TorchRanks {
    std::string collectives{};      // "NCCL" or "gloo"
    bool symmetric_memory = false;  // kernels read the memory of the other GPUs of this host
    std::string why{};

    /// "NCCL and symmetric memory: ..."
    std::string text() const;
};

TorchRanks torch_ranks(const cuda::Probe& found);

}  // namespace tilewright::cli
