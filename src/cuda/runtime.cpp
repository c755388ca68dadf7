#include "cuda/runtime.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>

#include "cuda/environment.h"
#include "cuda/library_search.h"
#include "cuda/same_problem.h"
#include "launch/choose.h"

namespace tilewright::cuda {
namespace {

std::atomic<std::uint64_t> runtimes{0};

// Kinds of calls that are remembered, of all threads: some megabytes.
constexpr std::size_t kind_limit = 8192;

/// A few entries, the oldest of which makes room.
template <class Entry, int capacity>
class Recent {
public:
    template <class Predicate>
    Entry* find(const Predicate& wanted) {
        for (int i = 0; i < size_; ++i) {
            if (wanted(entries_[i])) return &entries_[i];
        }
        return nullptr;
    }
    Entry& add(const Entry& entry) {
        Entry& place = entries_[next_];
        place = entry;
        next_ = (next_ + 1) % capacity;
        size_ = std::min(size_ + 1, capacity);
        return place;
    }
    void clear() { size_ = next_ = 0; }

private:
    std::array<Entry, capacity> entries_{};
    int size_ = 0;
    int next_ = 0;
};

}  // namespace

struct Runtime::ThreadCache {
    std::uint64_t owner = 0;
    Recent<Repeatable, 8> calls;
    Recent<Chosen, 32> kinds;
};

Runtime::Runtime(const Driver& driver, const KernelPack& pack, DiskCache cache, std::vector<std::string> compilers)
    : driver_(driver), store_(pack, std::move(cache), std::move(compilers)), id_(++runtimes) {}

Device& Runtime::device(int index) {
    if (index >= 0 && index < device_limit) {
        if (Device* opened = opened_[index].load(std::memory_order_acquire); opened != nullptr) return *opened;
    }
    const std::lock_guard lock(mutex_);
    if (index >= 0 && index < device_limit && opened_[index] != nullptr) return *opened_[index];
    auto opened = std::make_unique<Device>(driver_, store_, index);
    if (index >= device_limit)
        throw Error(fmt::format("cuda:{}: the first {} devices are served", index, device_limit));
    Device& device = *devices_.emplace_back(std::move(opened));
    opened_[index].store(&device, std::memory_order_release);
    return device;
}

Runtime::ThreadCache& Runtime::thread_cache() const {
    thread_local ThreadCache cache;
    if (cache.owner != id_) {
        cache.calls.clear();
        cache.kinds.clear();
        cache.owner = id_;
    }
    return cache;
}

bool Runtime::repeat(const Problem& problem, const InStream& order) {
    Repeatable* known = thread_cache().calls.find([&](const Repeatable& call) {
        // A kernel for plain calls knows no alpha.
        return same_addresses(call.problem, problem) && same_kind(call.problem, problem) &&
               (call.problem.alpha == 1) == (problem.alpha == 1);
    });
    if (known == nullptr) return false;
    known->ready.arguments.alpha = problem.alpha;
    known->device->launch(known->ready, order);
    return true;
}

bool Runtime::knows_kind(const Problem& problem) const {
    return thread_cache().kinds.find([&](const Chosen& kind) { return same_kind(kind.problem, problem); }) != nullptr;
}

Runtime::Chosen Runtime::choose_shared(const Problem& problem) {
    Device& on = device(device_of(problem));
    const std::lock_guard lock(mutex_);
    const std::size_t hash = kind_hash(problem);
    const auto [begin, end] = chosen_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
        if (same_kind(known->second.problem, problem)) return known->second;
    }
    Chosen chosen{.problem = problem, .device = &on, .tile = launch::chosen_tile(problem, on.description())};
    if (chosen_.size() >= kind_limit) chosen_.clear();
    chosen_.emplace(hash, chosen);
    return chosen;
}

Runtime::Chosen& Runtime::choose(const Problem& problem, ThreadCache& cache) {
    Chosen* known = cache.kinds.find([&](const Chosen& kind) { return same_kind(kind.problem, problem); });
    return known != nullptr ? *known : cache.kinds.add(choose_shared(problem));
}

void Runtime::run(const Problem& problem, const InStream& order) {
    ThreadCache& cache = thread_cache();
    Chosen& chosen = choose(problem, cache);
    const int sms = chosen.device->sms();
    const int usable = problem.sm_limit > 0 ? std::min(problem.sm_limit, sms) : sms;
    const launch::Launch launch = launch::launch(geometry(problem), chosen.tile, usable);
    KernelHandle& kernel = is_fast(launch.tile) ? chosen.plain_kernel : chosen.kernel;
    if (kernel == nullptr && launch.blocks > 0) kernel = chosen.device->kernel(launch.tile);
    Repeatable& call =
        cache.calls.add({.problem = problem, .device = chosen.device, .ready = chosen.device->ready(kernel, launch)});
    chosen.device->launch(call.ready, order);
}

void Runtime::run(const Geometry& geometry, const hopper::Tile& tile, const Target& target) {
    Device& on = device(target.device);
    const int usable = target.sm_limit > 0 ? std::min(target.sm_limit, on.sms()) : on.sms();
    const launch::Launch launch = launch::launch(geometry, tile, usable);
    ReadyLaunch ready = on.ready(on.kernel(launch.tile), launch);
    on.launch(ready, {target.stream, target.overlap});
}

Runtime& runtime() {
    static Runtime shared(driver(), embedded_pack(), DiskCache(read_environment().cache_directory), nvrtc_candidates());
    return shared;
}

}  // namespace tilewright::cuda
