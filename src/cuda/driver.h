// The CUDA driver, opened at run time: one typed table of the entry points that Tilewright uses, and their errors.
// Names and values are those of NVIDIA's "CUDA Driver API"; its enumerations and CUdevice are ints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/library_search.h"

namespace tilewright::cuda {

using ContextHandle = struct DriverContext*;
using StreamHandle = struct DriverStream*;
using LibraryHandle = struct DriverLibrary*;
using KernelHandle = struct DriverKernel*;
using FunctionHandle = struct DriverFunction*;
using EventHandle = struct DriverEvent*;
using GraphHandle = struct DriverGraph*;
using GraphExecutionHandle = struct DriverGraphExecution*;
using DeviceAddress = std::uint64_t;

// Attributes that src/measure queries too.
inline constexpr int attribute_multiprocessor_count = 16;     // CUdevice_attribute
inline constexpr unsigned non_blocking_stream = 1;            // CU_STREAM_NON_BLOCKING
inline constexpr unsigned portable_and_mapped = 1 | 2;        // CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr int attribute_max_dynamic_shared_bytes = 8;  // CUfunction_attribute

/// The used part of CUlaunchAttribute; the value is a union of 64 bytes.
struct LaunchAttribute {
    static constexpr int cluster_dimension = 4;
    static constexpr int programmatic_stream_serialization = 6;  // x: 1 if allowed
    int id = 0;
    int padding = 0;
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;
    unsigned unused[13] = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

/// The order of a launch on the GPU.
struct InStream {
    StreamHandle stream = nullptr;
    bool overlap = false;        // RunOptions::overlap
    bool weights_ready = false;  // RunOptions::weights_ready

    InStream(StreamHandle on = nullptr, bool overlaps = false, bool weights_are_ready = false)
        : stream(on), overlap(overlaps), weights_ready(weights_are_ready) {}
};

/// CUlaunchConfig.
struct LaunchConfig {
    unsigned grid[3] = {1, 1, 1};
    unsigned block[3] = {1, 1, 1};
    unsigned shared_bytes = 0;
    StreamHandle stream = nullptr;
    LaunchAttribute* attributes = nullptr;
    unsigned attribute_count = 0;
};

/// CUipcMemHandle: names memory to other processes of the host.
struct MemoryHandle {
    char bytes[64] = {};
};

struct DriverCalls {
    /// Copies from memory of the host, and has ended when it returns. The driver's own call may return earlier, in the
    /// order of the default stream only (CUDA Driver API, "API synchronization behavior"). Kernels of another stream
    /// then read earlier bytes.
    int write(DeviceAddress to, const void* from, std::size_t bytes) const {
        const int result = begin_copy_to_device(to, from, bytes);
        return result != 0 ? result : stream_synchronize(nullptr);
    }
    /// Fills bytes with one value, and has ended when it returns.
    int fill(DeviceAddress to, unsigned char value, std::size_t bytes) const {
        const int result = begin_fill(to, value, bytes);
        return result != 0 ? result : stream_synchronize(nullptr);
    }

    int (*init)(unsigned) = nullptr;
    int (*error_name)(int, const char**) = nullptr;
    int (*error_string)(int, const char**) = nullptr;
    int (*device_count)(int*) = nullptr;
    int (*device_get)(int*, int) = nullptr;
    int (*device_name)(char*, int, int) = nullptr;
    int (*device_attribute)(int*, int, int) = nullptr;
    int (*device_bus_id)(char*, int, int) = nullptr;
    int (*primary_context_retain)(ContextHandle*, int) = nullptr;
    int (*context_current)(ContextHandle*) = nullptr;
    int (*context_device)(int*) = nullptr;
    int (*context_push)(ContextHandle) = nullptr;
    int (*context_pop)(ContextHandle*) = nullptr;
    int (*context_synchronize)() = nullptr;
    int (*exchange_capture_mode)(int*) = nullptr;
    int (*library_load)(LibraryHandle*, const void*, int*, void**, unsigned, int*, void**, unsigned) = nullptr;
    int (*library_kernel)(KernelHandle*, LibraryHandle, const char*) = nullptr;
    int (*kernel_function)(FunctionHandle*, KernelHandle) = nullptr;
    int (*kernel_set_attribute)(int, int, KernelHandle, int) = nullptr;
    int (*launch)(const LaunchConfig*, void*, void**, void**) = nullptr;
    int (*most_active_clusters)(int*, void*, const LaunchConfig*) = nullptr;  // null where the driver has none
    int (*encode_tiled)(void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,
                        const std::uint32_t*, const std::uint32_t*, int, int, int, int) = nullptr;
    int (*host_allocate)(void**, std::size_t, unsigned) = nullptr;
    int (*host_device_address)(DeviceAddress*, void*, unsigned) = nullptr;
    int (*host_release)(void*) = nullptr;
    int (*allocate)(DeviceAddress*, std::size_t) = nullptr;
    int (*release)(DeviceAddress) = nullptr;
    int (*begin_copy_to_device)(DeviceAddress, const void*, std::size_t) = nullptr;
    int (*copy_to_host)(void*, DeviceAddress, std::size_t) = nullptr;
    int (*copy_in_order)(DeviceAddress, DeviceAddress, std::size_t, StreamHandle) = nullptr;
    int (*begin_fill)(DeviceAddress, unsigned char, std::size_t) = nullptr;
    int (*fill_bytes_in_order)(DeviceAddress, unsigned char, std::size_t, StreamHandle) = nullptr;
    int (*stream_create)(StreamHandle*, unsigned) = nullptr;
    int (*stream_destroy)(StreamHandle) = nullptr;
    int (*stream_synchronize)(StreamHandle) = nullptr;
    int (*stream_wait_event)(StreamHandle, EventHandle, unsigned) = nullptr;
    int (*event_create)(EventHandle*, unsigned) = nullptr;
    int (*event_record)(EventHandle, StreamHandle) = nullptr;
    int (*event_synchronize)(EventHandle) = nullptr;
    int (*event_milliseconds)(float*, EventHandle, EventHandle) = nullptr;
    int (*event_destroy)(EventHandle) = nullptr;
    int (*stream_begin_capture)(StreamHandle, int) = nullptr;
    int (*stream_end_capture)(StreamHandle, GraphHandle*) = nullptr;
    int (*graph_instantiate)(GraphExecutionHandle*, GraphHandle, unsigned long long) = nullptr;
    int (*graph_launch)(GraphExecutionHandle, StreamHandle) = nullptr;
    int (*graph_destroy)(GraphHandle) = nullptr;
    int (*graph_execution_destroy)(GraphExecutionHandle) = nullptr;
    // Only ranks use these (src/ranks). Null where the driver has no such function.
    int (*stream_is_capturing)(StreamHandle, int*) = nullptr;
    int (*stream_query)(StreamHandle) = nullptr;
    int (*device_of_bus_id)(int*, const char*) = nullptr;
    int (*can_access_peer)(int*, int, int) = nullptr;
    int (*enable_peer_access)(ContextHandle, unsigned) = nullptr;
    int (*export_memory)(MemoryHandle*, DeviceAddress) = nullptr;
    int (*import_memory)(DeviceAddress*, MemoryHandle, unsigned) = nullptr;
    int (*close_import)(DeviceAddress) = nullptr;
};

class Driver {
public:
    /// Opens and initialises the driver. Throws Error that names the missing part and the remedy.
    explicit Driver(const std::string& library);

    /// Unless `result` is success, throws Error with the call, the device and the driver's own text.
    void require(int result, const char* what, int device) const {
        if (result != 0) fail(result, what, device);
    }

    DriverCalls call;

private:
    [[noreturn]] void fail(int result, const char* what, int device) const;

    OpenLibrary library_;
};

/// The machine's driver, opened on first use.
const Driver& driver();

}  // namespace tilewright::cuda
