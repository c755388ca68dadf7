// Turns a validated problem into a launch. The tile is chosen once per kind of call. A call that a thread makes again
// is launched from the call cache.
#pragma once

#include <tilewright/run.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda/call_cache.h"
#include "cuda/device.h"
#include "plan/variant.h"
#include "problem/gpu_call.h"

namespace tilewright::cuda {

/// The target of a launch.
struct Target {
    int device = 0;
    StreamHandle stream = nullptr;
    int sm_limit = 0;      // 0: all
    bool overlap = false;  // RunOptions::overlap
    Workspace workspace{};
};

class Runtime {
public:
    Runtime(const Driver& driver, const KernelPack& pack, DiskCache cache, std::vector<std::string> compilers);

    /// Launches a problem that equals one of the last problems of this thread, except for an alpha other than 1.
    /// Returns false if it equals none of them. No allocation, no lock.
    bool repeat(const Problem& problem, const InStream& order, const Workspace& workspace = {});

    /// Whether this thread recently ran a problem that differs from this one only in addresses and alpha.
    bool knows_kind(const Problem& problem) const;

    /// For a problem without findings of `validate` and `check_workspace` for the backend hopper, and its description
    /// with the addresses in this workspace. After the first call of its kind by a thread, no allocation and no lock,
    /// except for calls with a workspace.
    void run(const Problem& problem, const GpuCall& call, const InStream& order, const Workspace& workspace = {});

    /// Runs the problem as the planner would on another device, to get that device's bits. Each call is planned again.
    void run_as(const Problem& problem, const GpuCall& call, const DeviceDescription& planned_for,
                const InStream& order, const Workspace& workspace = {});

    /// Runs exactly this tile, legal for the problem, in the variant that serves it: for tuning, benchmarks and tests.
    /// `geometry` is the caller's, and the workspace is large enough.
    void run(const Geometry& geometry, const hopper::Kernel& tile, const Target& target);

    /// Runs launches, one after another.
    void run(const std::vector<launch::OtherLaunch>& launches, const Target& target);

    /// Opened on first use.
    Device& device(int index);

private:
    CallCache& call_cache() const;
    /// The kind of this call, chosen once for all threads.
    KnownKind choose(const Problem& problem, const GpuCall& call);
    void run(const GpuCall& call, const hopper::Kernel& tile, const Target& target);

    const Driver& driver_;
    KernelStore store_;
    std::uint64_t id_;  // for CallCache::belong_to
    static constexpr int device_limit = 64;
    std::array<std::atomic<Device*>, device_limit> opened_{};
    std::mutex mutex_;
    std::vector<std::unique_ptr<Device>> devices_;
    std::unordered_multimap<std::size_t, KnownKind> chosen_;  // by kind_hash
};

/// This process's runtime: its driver, the embedded pack, the cache folder of the environment.
Runtime& runtime();

}  // namespace tilewright::cuda
