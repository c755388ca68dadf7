#include "cuda/runtime.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/environment.h"
#include "cuda/library_search.h"
#include "cuda/same_problem.h"
#include "launch/preparation.h"
#include "plan/runnable.h"
#include "plan/variant.h"
#include "problem/preparation.h"

namespace tilewright::cuda {
namespace {

std::atomic<std::uint64_t> runtimes{0};

// Remembered kinds of calls, of all threads: some megabytes.
constexpr std::size_t kind_limit = 8192;

/// A few entries; a new one replaces the oldest.
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

bool serves(const Workspace& given, const Workspace& needed) {
    return needed.bytes == 0 || (given.data == needed.data && given.bytes >= needed.bytes);
}

int usable_sms(const Device& device, int limit) { return limit > 0 ? std::min(limit, device.sms()) : device.sms(); }

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
        throw Error(fmt::format("cuda:{}: only the first {} devices are supported", index, device_limit));
    Device& device = *devices_.emplace_back(std::move(opened));
    opened_[index].store(&device, std::memory_order_release);
    return device;
}

Runtime::ThreadCache& Runtime::thread_cache() const {
    // 67 KiB, which as a thread_local object would be taken from the stack of every thread of a program.
    thread_local const auto own = std::make_unique<ThreadCache>();
    ThreadCache& cache = *own;
    if (cache.owner != id_) {
        cache.calls.clear();
        cache.kinds.clear();
        cache.owner = id_;
    }
    return cache;
}

bool Runtime::repeat(const Problem& problem, const InStream& order, const Workspace& workspace) {
    Repeatable* known = thread_cache().calls.find([&](const Repeatable& call) {
        // The fast variant does not apply alpha.
        return same_addresses(call.problem, problem) && same_kind(call.problem, problem) &&
               (call.problem.alpha == 1) == (problem.alpha == 1) && serves(workspace, call.workspace);
    });
    if (known == nullptr) return false;
    if (known->ready.arguments.k > 0) known->ready.arguments.alpha = problem.alpha;  // otherwise D is C, or zeros
    known->device->launch(known->ready, order);
    return true;
}

bool Runtime::knows_kind(const Problem& problem) const {
    return thread_cache().kinds.find([&](const Chosen& kind) { return same_kind(kind.problem, problem); }) != nullptr;
}

Runtime::Chosen Runtime::choose_shared(const Problem& problem, const Geometry& geometry) {
    Device& on = device(device_of(problem));
    const std::lock_guard lock(mutex_);
    const std::size_t hash = kind_hash(problem);
    const auto [begin, end] = chosen_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
        if (same_kind(known->second.problem, problem)) return known->second;
    }
    Chosen chosen{.problem = problem, .device = &on, .tile = planner::chosen_tile(problem, geometry, on.description())};
    if (chosen_.size() >= kind_limit) chosen_.clear();
    chosen_.emplace(hash, chosen);
    return chosen;
}

Runtime::Chosen& Runtime::choose(const Problem& problem, const Geometry& geometry, ThreadCache& cache) {
    Chosen* known = cache.kinds.find([&](const Chosen& kind) { return same_kind(kind.problem, problem); });
    return known != nullptr ? *known : cache.kinds.add(choose_shared(problem, geometry));
}

KernelHandle Runtime::Chosen::kernel(const hopper::Tile& variant) {
    for (LoadedKernel& known : kernels) {
        if (known.kernel == nullptr) known = {variant, device->kernel(variant)};
        if (known.tile == variant) return known.kernel;
    }
    throw std::logic_error("a tile has more variants than a call remembers");
}

void Runtime::run_as(const Problem& problem, const DeviceDescription& planned_for, const InStream& order,
                     const Workspace& workspace) {
    const Geometry described = geometry(problem);
    run(described, planner::chosen_tile(problem, described, planned_for),
        {.device = device_of(problem),
         .stream = order.stream,
         .sm_limit = problem.sm_limit,
         .overlap = order.overlap,
         .workspace = workspace});
}

void Runtime::run(const Problem& problem, const InStream& order, const Workspace& workspace) {
    ThreadCache& cache = thread_cache();
    const Geometry described = geometry(problem);
    Chosen& chosen = choose(problem, described, cache);
    Device& on = *chosen.device;
    const Preparation before = preparation(described);
    const Geometry product = prepared(described, before, workspace.data);
    const hopper::Tile tile = planner::variant(product, chosen.tile);
    const launch::Launch lowered = launch::lower(product, tile, usable_sms(on, problem.sm_limit));
    const KernelHandle kernel = lowered.blocks > 0 ? chosen.kernel(tile) : nullptr;
    Repeatable& call = cache.calls.add({.problem = problem,
                                        .workspace = {workspace.data, before.bytes},
                                        .device = &on,
                                        .ready = on.ready(kernel, lowered)});
    call.ready.before = on.ready(launch::lower_preparation(before, workspace.data));
    on.launch(call.ready, order);
}

void Runtime::run(const Geometry& geometry, const hopper::Tile& tile, const Target& target) {
    Device& on = device(target.device);
    const Preparation before = preparation(geometry);
    const Geometry product = prepared(geometry, before, target.workspace.data);
    const hopper::Tile kernel = planner::variant(product, tile);
    ReadyLaunch ready = on.ready(on.kernel(kernel), launch::lower(product, kernel, usable_sms(on, target.sm_limit)));
    ready.before = on.ready(launch::lower_preparation(before, target.workspace.data));
    on.launch(ready, {target.stream, target.overlap});
}

void Runtime::quantize(const std::vector<launch::QuantizeLaunch>& launches, const Target& target) {
    Device& on = device(target.device);
    for (const launch::QuantizeLaunch& launch : launches) on.launch(launch, {target.stream, target.overlap});
}

void Runtime::run_moe(const std::vector<launch::MoeLaunch>& launches, const Target& target) {
    Device& on = device(target.device);
    for (const launch::MoeLaunch& launch : launches) on.launch(launch, {target.stream, target.overlap});
}

Runtime& runtime() {
    static Runtime shared(driver(), embedded_pack(), DiskCache(read_environment().cache_directory), nvrtc_candidates());
    return shared;
}

}  // namespace tilewright::cuda
