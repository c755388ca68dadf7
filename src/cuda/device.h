// One GPU as this process uses it: its kernels, loaded once each, and the report of a kernel that failed.
#pragma once

#include <tilewright/plan.h>

#include <mutex>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "cuda/kernel_store.h"
#include "cuda/scopes.h"
#include "launch/kernels.h"
#include "launch/launch.h"
#include "plan/devices.h"

namespace tilewright::cuda {

/// A loaded kernel that runs ahead of the product.
struct ReadyStep {
    KernelHandle kernel = nullptr;
    launch::OtherLaunch launch{};
};

/// A launch with encoded tensor maps: ready for any stream of its device.
struct ReadyLaunch {
    std::vector<ReadyStep> before{};  // in this order; they write the workspace
    KernelHandle kernel = nullptr;
    hopper::AllArguments arguments{};
    int blocks = 0;  // 0: nothing to launch
    int cluster = 1;
    int threads = 0;
    int shared_bytes = 0;
};

/// The GPU as its driver describes it. Throws Error as `describe_device` does.
planner::ReportedGpu reported_gpu(const Driver& driver, int index);

/// The planner's description of this GPU, made without a context on it. Throws Error if the GPU does not exist or is
/// not a Hopper GPU.
DeviceDescription describe_device(const Driver& driver, int index);

class Device {
public:
    /// Throws Error if the GPU does not exist or is not a Hopper GPU. Driver and store must outlive the device.
    Device(const Driver& driver, KernelStore& store, int index);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    int sms() const { return description_.sms; }
    /// For the planner (planner::recognise).
    const DeviceDescription& description() const { return description_; }

    /// Compiles and loads the kernel on first use. Any thread may call, also while one of its streams is being
    /// captured.
    KernelHandle kernel(const hopper::Kernel& tile);

    ReadyLaunch ready(KernelHandle kernel, const launch::Launch& launch) const;
    /// Loads the kernels on first use.
    std::vector<ReadyStep> ready(const std::vector<launch::OtherLaunch>& launches);

    /// Throws Error if the driver refuses, or if an earlier kernel on this device left a report. No allocation, no
    /// lock. The preparation does not overlap earlier work of the stream, because it may overwrite data that this work
    /// still reads.
    void launch(ReadyLaunch& ready, const InStream& order);

    /// Launches a kernel that leaves no report. It throws as above, and overlaps earlier work of the stream only if the
    /// kernel waits for this work by itself.
    void launch(const launch::OtherLaunch& launch, const InStream& order);

    /// Whether clusters of this kernel may have more than 8 blocks. If not, `launch` makes them smaller.
    bool runs_large_clusters(const launch::OtherKernel& wanted) { return kernel(wanted).runs_large_clusters; }

    /// Makes a context of this device the thread's current one while the returned object exists.
    ContextScope context() const { return {driver_, handle_, context_}; }

    /// Throws the report of an earlier kernel, once.
    void check_report();

private:
    void allocate_report();
    [[noreturn]] void throw_report();
    KernelHandle load(const hopper::Kernel& tile);
    KernelHandle load(const KernelSource& source, int shared_bytes);
    /// Makes all of an SM's shared memory available to blocks of the kernel, so that as many as possible share an SM.
    void share_most(KernelHandle kernel);
    struct LoadedKernel {
        KernelHandle handle = nullptr;
        bool runs_large_clusters = false;  // of more than 8 blocks, if the kernel ever has them
    };
    LoadedKernel kernel(const launch::OtherKernel& wanted);
    /// Asks for the kernel's largest cluster, which a part of a GPU may refuse.
    bool allow_large_clusters(KernelHandle kernel);
    /// The size of a launch.
    struct Extent {
        int blocks = 0;
        int threads = 0;
        int cluster = 1;
        int shared_bytes = 0;
    };
    void start(KernelHandle kernel, const Extent& extent, void* arguments, const InStream& order);
    void start(KernelHandle kernel, const launch::OtherLaunch& launch, const InStream& order);

    const Driver& driver_;
    KernelStore& store_;
    int index_ = 0;
    int handle_ = 0;  // CUdevice
    ContextHandle context_ = nullptr;
    DeviceDescription description_;
    hopper::KernelReport* report_ = nullptr;  // in host memory that the GPU can write to
    hopper::KernelReport* report_on_device_ = nullptr;
    std::mutex mutex_;
    std::vector<std::pair<hopper::Kernel, KernelHandle>> kernels_;
    std::vector<std::pair<launch::OtherKernel, LoadedKernel>> other_kernels_;
};

}  // namespace tilewright::cuda
