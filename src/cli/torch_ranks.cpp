#include "cli/torch_ranks.h"

#include <fmt/format.h>

#include "cli/backends.h"

namespace tilewright::cli {

std::string TorchRanks::text() const {
    return fmt::format("{}{}: {}", collectives, symmetric_memory ? " and symmetric memory" : "", why);
}

TorchRanks torch_ranks(const cuda::Probe& found) {
    const BackendStatus hopper = backend_statuses(found).front();
    if (!hopper.available) return {.collectives = "gloo", .why = "tokens are on CPUs, because " + hopper.why};
    TorchRanks ranks{.collectives = "NCCL"};
    if (found.gpus.size() == 1) {
        ranks.why = "one GPU, whose rank reaches other hosts by collectives only";
    } else if (!found.unreached.empty()) {
        ranks.why = found.unreached;
    } else {
        ranks.symmetric_memory = true;
        ranks.why = fmt::format("all {} GPUs reach each other's memory; other hosts are reached by collectives",
                                found.gpus.size());
    }
    return ranks;
}

}  // namespace tilewright::cli
