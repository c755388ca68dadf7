#include "cuda/device.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "cuda/scopes.h"
#include "cuda/tensor_map.h"
#include "hopper/description/design.h"
#include "launch/kernels.h"
#include "launch/moe.h"
#include "problem/mixed_rows.h"

namespace tilewright::cuda {
namespace {

// CUdevice_attribute, CUfunction_attribute and the flags of cuMemHostAlloc.
constexpr int attribute_clock_kilohertz = 13;
constexpr int attribute_l2_bytes = 38;
constexpr int attribute_capability_major = 75;
constexpr int attribute_capability_minor = 76;
constexpr int attribute_shared_carveout = 9;  // percent of an SM's memory
constexpr int attribute_large_clusters = 14;  // of more than 8 blocks

int handle_of(const Driver& driver, int index) {
    int count = 0;
    int handle = 0;
    driver.require(driver.call.device_count(&count), "cuDeviceGetCount", index);
    if (index < 0 || index >= count) {
        throw Error(fmt::format("cuda:{}: no such device; the driver finds {}; run `nvidia-smi`", index, count));
    }
    driver.require(driver.call.device_get(&handle, index), "cuDeviceGet", index);
    return handle;
}

const void* aligned_down(const void* address) {
    return std::bit_cast<const void*>(std::bit_cast<std::uintptr_t>(address) & ~std::uintptr_t{15});
}

}  // namespace

planner::ReportedGpu reported_gpu(const Driver& driver, int index) {
    const int handle = handle_of(driver, index);
    const auto attribute = [&](int which) {
        int value = 0;
        driver.require(driver.call.device_attribute(&value, which, handle), "cuDeviceGetAttribute", index);
        return value;
    };
    std::array<char, 256> text{};
    driver.require(driver.call.device_name(text.data(), static_cast<int>(text.size()) - 1, handle), "cuDeviceGetName",
                   index);
    const std::string chip = text.data();
    const int major = attribute(attribute_capability_major);
    const int minor = attribute(attribute_capability_minor);
    if (major != 9 || minor != 0) {
        throw Error(
            fmt::format("cuda:{}: {} has compute capability {}.{}, the GPU kernels need 9.0 (H100, H200, "
                        "GH200); copy the tensors to the host and use the CPU backend",
                        index, chip, major, minor));
    }
    return {.name = chip,
            .sms = attribute(attribute_multiprocessor_count),
            .clock_hertz = attribute(attribute_clock_kilohertz) * 1e3,
            .l2_bytes = attribute(attribute_l2_bytes)};
}

DeviceDescription describe_device(const Driver& driver, int index) {
    return planner::recognise(reported_gpu(driver, index));
}

Device::Device(const Driver& driver, KernelStore& store, int index)
    : driver_(driver),
      store_(store),
      index_(index),
      handle_(handle_of(driver, index)),
      description_(describe_device(driver, index)) {
    const RelaxedCapture relaxed(driver);
    driver.require(driver.call.primary_context_retain(&context_, handle_), "cuDevicePrimaryCtxRetain", index);
    allocate_report();
}

void Device::allocate_report() {
    const ContextScope scope(driver_, handle_, context_);
    void* memory = nullptr;
    DeviceAddress address = 0;
    driver_.require(driver_.call.host_allocate(&memory, sizeof(hopper::KernelReport), portable_and_mapped),
                    "cuMemHostAlloc", index_);
    driver_.require(driver_.call.host_device_address(&address, memory, 0), "cuMemHostGetDevicePointer", index_);
    report_ = new (memory) hopper::KernelReport{};
    report_on_device_ = reinterpret_cast<hopper::KernelReport*>(address);
}

KernelHandle Device::load(const KernelSource& source, int shared_bytes) {
    const CompiledKernel compiled = store_.get(source);
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, handle_, context_);
    LibraryHandle library = nullptr;
    KernelHandle kernel = nullptr;
    FunctionHandle function = nullptr;
    driver_.require(
        driver_.call.library_load(&library, compiled.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData", index_);
    driver_.require(driver_.call.library_kernel(&kernel, library, compiled.name.c_str()), "cuLibraryGetKernel", index_);
    driver_.require(
        driver_.call.kernel_set_attribute(attribute_max_dynamic_shared_bytes, shared_bytes, kernel, handle_),
        "cuKernelSetAttribute", index_);
    // Loads it now, because a lazy load in the middle of a capture would be an error.
    driver_.require(driver_.call.kernel_function(&function, kernel), "cuKernelGetFunction", index_);
    return kernel;
}

KernelHandle Device::load(const hopper::Kernel& kernel) {
    const hopper::Design design = hopper::Design(kernel);
    const KernelHandle handle =
        load({.text = launch::kernel_source, .expression = launch::kernel_expression(kernel)}, design.shared_bytes);
    if (design.blocks_per_sm > 1) share_most(handle);
    return handle;
}

void Device::share_most(KernelHandle kernel) {
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, handle_, context_);
    driver_.require(driver_.call.kernel_set_attribute(attribute_shared_carveout, 100, kernel, handle_),
                    "cuKernelSetAttribute", index_);
}

Device::LoadedKernel Device::kernel(const launch::OtherKernel& wanted) {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, kernel] : other_kernels_) {
        if (known == wanted) return kernel;
    }
    const KernelHandle kernel =
        load({.text = launch::source_of(wanted), .expression = launch::kernel_expression(wanted)},
             launch::most_shared_bytes(wanted));
    using launch::MeetAndRoute, launch::PackScales, launch::PackTiles, launch::Route;
    // An SM whose memory is divided otherwise must be idle before a product can begin there.
    const bool precedes_products = launch::source_of(wanted) == launch::moe_source;
    if (precedes_products || std::holds_alternative<PackTiles>(wanted) || std::holds_alternative<PackScales>(wanted)) {
        share_most(kernel);
    }
    const bool routes = std::holds_alternative<Route>(wanted) || std::holds_alternative<MeetAndRoute>(wanted);
    const bool large = routes && allow_large_clusters(kernel);
    return other_kernels_.emplace_back(wanted, LoadedKernel{kernel, large}).second;
}

bool Device::allow_large_clusters(KernelHandle kernel) {
    if (driver_.call.most_active_clusters == nullptr) return false;
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, handle_, context_);
    if (driver_.call.kernel_set_attribute(attribute_large_clusters, 1, kernel, handle_) != 0) return false;
    LaunchAttribute cluster{.id = LaunchAttribute::cluster_dimension, .x = hopper::most_route_blocks};
    const LaunchConfig config{.grid = {hopper::most_route_blocks, 1, 1},
                              .block = {hopper::route_threads, 1, 1},
                              .shared_bytes = hopper::most_route_shared,
                              .attributes = &cluster,
                              .attribute_count = 1};
    int clusters = 0;
    return driver_.call.most_active_clusters(&clusters, kernel, &config) == 0 && clusters > 0;
}

KernelHandle Device::kernel(const hopper::Kernel& tile) {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, kernel] : kernels_) {
        if (known == tile) return kernel;
    }
    return kernels_.emplace_back(tile, load(tile)).second;
}

ReadyLaunch Device::ready(KernelHandle kernel, const launch::Launch& launch) const {
    ReadyLaunch ready{.kernel = kernel,
                      .arguments = launch.arguments,
                      .blocks = launch.blocks,
                      .cluster = launch.cluster,
                      .threads = launch.threads,
                      .shared_bytes = launch.shared_bytes};
    if (launch.blocks == 0) return ready;
    const ContextScope scope(driver_, handle_, context_);  // the encoder of maps needs it
    hopper::AllArguments& arguments = ready.arguments;
    launch::encode_maps(launch, arguments, [&](auto& map, auto description, const char* operand) {
        // The driver asks for an address, also where nothing is read through the map.
        if (description.base == nullptr) description.base = aligned_down(arguments.output.data);
        encode(driver_, index_, description, operand, map);
    });
    arguments.report = report_on_device_;
    return ready;
}

std::vector<ReadyStep> Device::ready(const std::vector<launch::OtherLaunch>& launches) {
    std::vector<ReadyStep> steps;
    steps.reserve(launches.size());
    for (const launch::OtherLaunch& each : launches) steps.push_back({kernel(each.kernel()).handle, each});
    return steps;
}

void Device::launch(ReadyLaunch& ready, const InStream& order) {
    check_report();
    if (ready.blocks == 0) return;
    for (const ReadyStep& step : ready.before) start(step.kernel, step.launch, order);
    // Weights that the call itself writes are not ready.
    ready.arguments.weights_ready = order.overlap && order.weights_ready && ready.before.empty();
    start(ready.kernel,
          {.blocks = ready.blocks,
           .threads = ready.threads,
           .cluster = ready.cluster,
           .shared_bytes = ready.shared_bytes},
          &ready.arguments, order);
}

void Device::start(KernelHandle kernel, const Extent& extent, void* arguments, const InStream& order) {
    const ContextScope scope(driver_, handle_, context_);
    std::array<LaunchAttribute, 2> attributes;
    unsigned count = 0;
    if (extent.cluster > 1) {
        attributes[count++] = {.id = LaunchAttribute::cluster_dimension, .x = static_cast<unsigned>(extent.cluster)};
    }
    if (order.overlap) attributes[count++] = {.id = LaunchAttribute::programmatic_stream_serialization};
    const LaunchConfig config{.grid = {static_cast<unsigned>(extent.blocks), 1, 1},
                              .block = {static_cast<unsigned>(extent.threads), 1, 1},
                              .shared_bytes = static_cast<unsigned>(extent.shared_bytes),
                              .stream = order.stream,
                              .attributes = attributes.data(),
                              .attribute_count = count};
    void* parameters[] = {arguments};
    driver_.require(driver_.call.launch(&config, kernel, parameters, nullptr), "cuLaunchKernelEx", index_);
}

void Device::start(KernelHandle kernel, const launch::OtherLaunch& launch, const InStream& order) {
    const auto start_call = [&]<class Kernel>(launch::CallOf<Kernel> call) {
        start(kernel,
              {.blocks = launch.blocks,
               .threads = launch.threads,
               .cluster = launch.cluster,
               .shared_bytes = launch.shared_bytes},
              &call.arguments, {order.stream, order.overlap && launch::waits_for_earlier<Kernel>});
    };
    std::visit(start_call, launch.call);
}

void Device::launch(const launch::OtherLaunch& launch, const InStream& order) {
    const LoadedKernel function = kernel(launch.kernel());
    check_report();
    if (launch.cluster > hopper::portable_cluster && !function.runs_large_clusters) {
        return start(function.handle, launch::in_portable_cluster(launch), order);
    }
    start(function.handle, launch, order);
}

void Device::check_report() {
    const auto is_set = [](auto& reported) {
        return std::atomic_ref<hopper::u64>(reported.word).load(std::memory_order_relaxed) != 0;
    };
    if (!is_set(report_->producer) && !is_set(report_->consumer) && !is_set(report_->mixed)) return;
    throw_report();
}

void Device::throw_report() {
    const auto take = []<class Word>(Word& reported) {
        return Word{std::atomic_ref<hopper::u64>(reported.word).exchange(0)};
    };
    if (const hopper::MixedRow row = take(report_->mixed); row.word != 0) {
        throw Error(fmt::format("cuda:{}: an earlier call: {} (`grouped_layout` in tilewright.deep_gemm)", index_,
                                mixed_rows(row.row(), row.group(), row.first_group()).message()));
    }
    const auto text = [](const hopper::Timeout& timeout) {
        const bool recorded = timeout.barrier() != hopper::BarrierName::none;
        return fmt::format("thread {} of block {} waited for {}", timeout.thread(), timeout.block(),
                           recorded ? fmt::format("barrier `{}`", hopper::name_of(timeout.barrier()))
                                    : "a barrier at which consumers wait too");
    };
    std::vector<std::string> waits;
    for (const hopper::Timeout& timeout : {take(report_->producer), take(report_->consumer)}) {
        if (timeout.word != 0) waits.push_back(text(timeout));
    }
    throw Error(
        fmt::format("cuda:{}: an earlier kernel timed out (deadlock); its output is invalid: {}; please report this "
                    "with the call",
                    index_, fmt::join(waits, ", ")));
}

}  // namespace tilewright::cuda
