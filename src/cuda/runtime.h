// From a validated problem to a launch: the tile is chosen once for each kind of call, and a call that a thread makes
// again is launched without looking at it twice.
#pragma once

#include <tilewright/run.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda/device.h"

namespace tilewright::cuda {

/// Where a tile is to run.
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

    /// Launches a problem that is, but for an alpha other than 1, one of the last that this thread ran; false if it is
    /// none of them. No allocation, no lock.
    bool repeat(const Problem& problem, const InStream& order, const Workspace& workspace = {});

    /// Whether this thread ran a problem lately that differs from this one in addresses and alpha only.
    bool knows_kind(const Problem& problem) const;

    /// For a problem in which `validate` finds nothing for the backend hopper, and a workspace that it needs or none.
    /// After the first call of its kind by a thread, no allocation and no lock, but for calls with a workspace.
    void run(const Problem& problem, const InStream& order, const Workspace& workspace = {});

    /// As the planner would on another device, planned anew at each call: for its bits.
    void run_as(const Problem& problem, const DeviceDescription& planned_for, const InStream& order,
                const Workspace& workspace = {});

    /// This very tile, legal for the problem, in the variant that serves it: for tuning, benchmarks and tests.
    /// `geometry` is not prepared.
    void run(const Geometry& geometry, const hopper::Tile& tile, const Target& target);

    /// A quantiser's launches, one after another.
    void quantize(const std::vector<launch::QuantizeLaunch>& launches, const Target& target);

    /// Opened on first use.
    Device& device(int index);

private:
    struct LoadedKernel {
        hopper::Tile tile;
        KernelHandle kernel = nullptr;
    };
    /// What calls of one kind run: a tile, and those of its variants that were needed so far.
    struct Chosen {
        Problem problem;
        Device* device = nullptr;
        hopper::Tile tile;
        std::array<LoadedKernel, 6> kernels{};  // of raw codes and packed ones, which addresses decide too

        /// Loaded when first needed.
        KernelHandle kernel(const hopper::Tile& variant);
    };
    struct Repeatable {
        Problem problem;
        Workspace workspace;  // as much as is needed; none where no address of it is in the launches
        Device* device = nullptr;
        ReadyLaunch ready;
    };
    struct ThreadCache;

    ThreadCache& thread_cache() const;
    Chosen& choose(const Problem& problem, const Geometry& geometry, ThreadCache& cache);
    Chosen choose_shared(const Problem& problem, const Geometry& geometry);

    const Driver& driver_;
    KernelStore store_;
    std::uint64_t id_;  // of this runtime, never used again: thread caches outlive it
    static constexpr int device_limit = 64;
    std::array<std::atomic<Device*>, device_limit> opened_{};
    std::mutex mutex_;
    std::vector<std::unique_ptr<Device>> devices_;
    std::unordered_multimap<std::size_t, Chosen> chosen_;  // by kind_hash
};

/// This process's runtime: its driver, the embedded pack, the cache folder of the environment.
Runtime& runtime();

}  // namespace tilewright::cuda
