#include "api/rank_memory.h"

#include <tilewright/error.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <string>

#include "api/rank_check.h"

namespace tilewright {

void* allocated(Ranks& ranks, std::int64_t bytes) {
    void* memory = nullptr;
    std::exception_ptr failure;
    try {
        memory = ranks.allocate(bytes);
    } catch (...) {
        failure = std::current_exception();
    }
    const bool all = all_have(ranks, !failure);
    if (failure) std::rethrow_exception(failure);
    if (!all) throw Error("another rank of the group got no memory; see the error there");
    return memory;
}

std::vector<std::int64_t> shifts_between(const std::vector<void*>& addresses, const void* memory) {
    std::vector<std::int64_t> shifts;
    shifts.reserve(addresses.size());
    for (void* const address : addresses) {
        shifts.push_back(static_cast<std::byte*>(address) - static_cast<const std::byte*>(memory));
    }
    return shifts;
}

bool share_a_gpu(Ranks& ranks) {
    if (ranks.device().kind != DeviceId::Kind::cuda) return false;
    using Name = std::array<char, 32>;
    Name own{};
    const std::string id = cuda::bus_id(ranks.device().index);
    std::copy_n(id.begin(), std::min(id.size(), own.size()), own.begin());
    std::vector<Name> all(static_cast<std::size_t>(ranks.size()));
    ranks.share(&own, all.data(), sizeof(Name));
    std::sort(all.begin(), all.end());
    return std::adjacent_find(all.begin(), all.end()) != all.end();
}

RankReportForHost::RankReportForHost(const DeviceId& device) {
    if (device.kind == DeviceId::Kind::cuda) {
        on_host_.emplace(device.index, std::int64_t{sizeof(formats::RankReport)});
    }
}

formats::RankReport* RankReportForHost::to_write() {
    return on_host_ ? static_cast<formats::RankReport*>(on_host_->on_device()) : &own_;
}

formats::RankReport RankReportForHost::take() {
    auto* const report = on_host_ ? static_cast<formats::RankReport*>(on_host_->data()) : &own_;
    return {std::atomic_ref<unsigned long long>(report->bits).exchange(0)};
}

}  // namespace tilewright
