#include "cuda/runtime.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <utility>

#include "cuda/environment.h"
#include "cuda/library_search.h"
#include "cuda/same_problem.h"
#include "launch/preparation.h"
#include "plan/choose.h"

namespace tilewright::cuda {
namespace {

std::atomic<std::uint64_t> runtimes{0};

// Remembered kinds of calls, of all threads: some megabytes.
constexpr std::size_t kind_limit = 8192;

int usable_sms(const Device& device, int limit) { return limit > 0 ? std::min(limit, device.sms()) : device.sms(); }

}  // namespace

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

CallCache& Runtime::call_cache() const {
    // 67 KiB, which as a thread_local object would be taken from the stack of every thread of a program.
    thread_local const auto own = std::make_unique<CallCache>();
    own->belong_to(id_);
    return *own;
}

bool Runtime::repeat(const Problem& problem, const InStream& order, const Workspace& workspace) {
    KnownCall* known = call_cache().find(problem, workspace);
    if (known == nullptr) return false;
    if (known->ready.arguments.k > 0) known->ready.arguments.alpha = problem.alpha;  // otherwise D is C, or zeros
    known->device->launch(known->ready, order);
    return true;
}

bool Runtime::knows_kind(const Problem& problem) const { return call_cache().find_kind(problem) != nullptr; }

KnownKind Runtime::choose(const Problem& problem, const GpuCall& call) {
    Device& on = device(device_of(problem));
    const std::lock_guard lock(mutex_);
    const std::size_t hash = kind_hash(problem);
    const auto [begin, end] = chosen_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
        if (same_kind(known->second.problem, problem)) return known->second;
    }
    KnownKind chosen(problem, on, planner::chosen_tiles(problem, call, on.description()));
    if (chosen_.size() >= kind_limit) chosen_.clear();
    chosen_.emplace(hash, chosen);
    return chosen;
}

void Runtime::run(const Problem& problem, const GpuCall& call, const InStream& order, const Workspace& workspace) {
    CallCache& cache = call_cache();
    KnownKind* known = cache.find_kind(problem);
    KnownKind& kind = known != nullptr ? *known : cache.add(choose(problem, call));
    Device& on = *kind.device;
    const planner::KernelPlan plan = planner::kernel_plan(call.product, kind.tiles);
    const launch::Launch lowered = launch::lower(call.product, plan, usable_sms(on, problem.sm_limit));
    const KernelHandle kernel = lowered.blocks > 0 ? kind.kernel(plan.tile) : nullptr;
    KnownCall& ready = cache.add({.problem = problem,
                                  .workspace = {workspace.data, call.before.bytes},
                                  .device = &on,
                                  .ready = on.ready(kernel, lowered)});
    ready.ready.before = on.ready(launch::lower_workspace(call.before, workspace.data));
    on.launch(ready.ready, order);
}

void Runtime::run_as(const Problem& problem, const GpuCall& call, const DeviceDescription& planned_for,
                     const InStream& order, const Workspace& workspace) {
    run(call, planner::chosen_tile(problem, call, planned_for),
        {.device = device_of(problem),
         .stream = order.stream,
         .sm_limit = problem.sm_limit,
         .overlap = order.overlap,
         .workspace = workspace});
}

void Runtime::run(const Geometry& geometry, const hopper::Kernel& tile, const Target& target) {
    run(gpu_call(geometry, target.workspace.data), tile, target);
}

void Runtime::run(const GpuCall& call, const hopper::Kernel& tile, const Target& target) {
    Device& on = device(target.device);
    const planner::KernelPlan plan = planner::kernel_plan(call.product, tile);
    const launch::Launch lowered = launch::lower(call.product, plan, usable_sms(on, target.sm_limit));
    ReadyLaunch ready = on.ready(on.kernel(plan.tile), lowered);
    ready.before = on.ready(launch::lower_workspace(call.before, target.workspace.data));
    on.launch(ready, {target.stream, target.overlap});
}

void Runtime::run(const std::vector<launch::OtherLaunch>& launches, const Target& target) {
    Device& on = device(target.device);
    for (const launch::OtherLaunch& launch : launches) on.launch(launch, {target.stream, target.overlap});
}

Runtime& runtime() {
    static Runtime shared(driver(), embedded_pack(), DiskCache(read_environment().cache_directory), nvrtc_candidates());
    return shared;
}

}  // namespace tilewright::cuda
