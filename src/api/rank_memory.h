// The memory that a rank has in a group, and the word in which its barriers leave what the host must know.
#pragma once

#include <tilewright/ranks.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/memory.h"
#include "formats/rank_words.h"

namespace tilewright {

/// Memory of this rank. Throws on all ranks if one got none.
void* allocated(Ranks& ranks, std::int64_t bytes);

/// From the memory of this rank to that of each rank.
std::vector<std::int64_t> shifts_between(const std::vector<void*>& addresses, const void* memory);

/// Whether any two ranks have one GPU. By all ranks together.
bool share_a_gpu(Ranks& ranks);

/// The number of the round that a report is about; the first is 0. `announce` adds 2 to the epoch of each.
inline std::int64_t turn_of(const formats::RankReport& report) {
    return (static_cast<std::int64_t>(report.epoch()) - report.phase()) / 2 - 1;
}

class RankReportForHost {
public:
    explicit RankReportForHost(const DeviceId& device);
    formats::RankReport* to_write();
    /// The word that barriers have left since the last look.
    formats::RankReport take();

private:
    formats::RankReport own_{};
    std::optional<cuda::HostMemory> on_host_{};
};

}  // namespace tilewright
