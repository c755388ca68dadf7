// Turns a validated problem into a launch. The tile is chosen once per kind of call. A call that a thread makes again
// is launched without a second look.
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

    /// For a problem without findings of `validate` for the backend hopper, with the workspace that it needs, if any.
    /// After the first call of its kind by a thread, no allocation and no lock, except for calls with a workspace.
    void run(const Problem& problem, const InStream& order, const Workspace& workspace = {});

    /// Runs the problem as the planner would on another device, to get that device's bits. Each call is planned again.
    void run_as(const Problem& problem, const DeviceDescription& planned_for, const InStream& order,
                const Workspace& workspace = {});

    /// Runs exactly this tile, legal for the problem, in the variant that serves it: for tuning, benchmarks and tests.
    /// `geometry` is not prepared.
    void run(const Geometry& geometry, const hopper::Tile& tile, const Target& target);

    /// Runs a quantizer's launches, one after another.
    void quantize(const std::vector<launch::QuantizeLaunch>& launches, const Target& target);

    /// Runs the kernels around the products of a layer, one after another. They may overlap earlier work.
    void run_moe(const std::vector<launch::MoeLaunch>& launches, const Target& target);

    /// Opened on first use.
    Device& device(int index);

private:
    struct LoadedKernel {
        hopper::Tile tile;
        KernelHandle kernel = nullptr;
    };
    /// The choice for one kind of calls: a tile, and the variants of it that were needed so far.
    struct Chosen {
        Problem problem;
        Device* device = nullptr;
        hopper::Tile tile;
        // Addresses also decide between kernels for weights read in place and for packed weights.
        std::array<LoadedKernel, 6> kernels{};

        /// Loaded when first needed.
        KernelHandle kernel(const hopper::Tile& variant);
    };
    struct Repeatable {
        Problem problem;
        // As much as is needed; empty if the launches contain no address of it.
        Workspace workspace;
        Device* device = nullptr;
        ReadyLaunch ready;
    };
    struct ThreadCache;

    ThreadCache& thread_cache() const;
    Chosen& choose(const Problem& problem, const Geometry& geometry, ThreadCache& cache);
    Chosen choose_shared(const Problem& problem, const Geometry& geometry);

    const Driver& driver_;
    KernelStore store_;
    // The runtime's number, which is never used again, because thread caches outlive the runtime.
    std::uint64_t id_;
    static constexpr int device_limit = 64;
    std::array<std::atomic<Device*>, device_limit> opened_{};
    std::mutex mutex_;
    std::vector<std::unique_ptr<Device>> devices_;
    std::unordered_multimap<std::size_t, Chosen> chosen_;  // by kind_hash
};

/// This process's runtime: its driver, the embedded pack, the cache folder of the environment.
Runtime& runtime();

}  // namespace tilewright::cuda
