// A fake of libcuda.so.1: records what it is asked for and refuses what the real one refuses. Memory is the host's. An
// import of it has another address.
#include "cuda/fake_driver.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

using tilewright::hopper::AllArguments;
using tilewright::hopper::TensorMap;
using tilewright::test::FakeDriver;

namespace {

FakeDriver fake;
thread_local std::array<int, 8> contexts{-1};  // a stack of devices
thread_local int depth = 1;
thread_local int capture_mode = 0;

constexpr int invalid_value = 1;
constexpr int invalid_context = 201;

int result_of(const char* call) {
    const int device = contexts[static_cast<std::size_t>(depth - 1)];
    const bool is_here = fake.failing_device < 0 || fake.failing_device == device;
    return fake.failing_call != nullptr && std::strcmp(fake.failing_call, call) == 0 && is_here ? fake.failure : 0;
}

/// A file in memory, so that it can be mapped twice.
struct Allocation {
    int file = -1;
    std::size_t bytes = 0;
};
std::mutex mutex;
std::map<std::uint64_t, Allocation> allocations;
std::map<std::uint64_t, std::size_t> imports;

std::uint64_t mapped(const Allocation& allocation) {
    void* memory = mmap(nullptr, allocation.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation.file, 0);
    return memory == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(memory);
}

// Kernels of products, whose handles are odd.
constexpr const char* product = "tilewright::hopper::gemm";
bool is_product(const void* kernel) { return reinterpret_cast<std::uintptr_t>(kernel) % 2 != 0; }

int cluster_of(const tilewright::cuda::LaunchConfig& config) {
    for (unsigned i = 0; i < config.attribute_count; ++i) {
        if (config.attributes[i].id == tilewright::cuda::LaunchAttribute::cluster_dimension) {
            return static_cast<int>(config.attributes[i].x);
        }
    }
    return 1;
}

void note_capture_mode() {
    if (capture_mode != 2) ++fake.strict_loads;
}

}  // namespace

extern "C" {

FakeDriver* tilewright_fake_driver() { return &fake; }
void tilewright_fake_make_current(int device) {
    depth = 1;
    contexts[0] = device;
}

int cuInit(unsigned) { return result_of("cuInit"); }
int cuGetErrorName(int error, const char** name) {
    *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}
int cuGetErrorString(int error, const char** text) {
    *text = error == 2 ? "out of memory" : "invalid argument";
    return 0;
}
int cuDeviceGetCount(int* count) {
    *count = fake.devices;
    return 0;
}
int cuDeviceGet(int* device, int index) {
    *device = index;
    return index < fake.devices ? 0 : invalid_value;
}
int cuDeviceGetName(char* name, int length, int) {
    std::strncpy(name, fake.name, static_cast<std::size_t>(length));
    return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 13: *value = fake.clock_kilohertz; return 0;
        case 16: *value = fake.multiprocessors; return 0;
        case 38: *value = fake.l2_bytes; return 0;
        case 75: *value = fake.capability_major; return 0;
        case 76: *value = fake.capability_minor; return 0;
        default: return invalid_value;
    }
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
    *context = reinterpret_cast<void*>(std::intptr_t{0x100} + device);
    return 0;
}
int cuCtxGetCurrent(void** context) {
    const int device = contexts[static_cast<std::size_t>(depth - 1)];
    *context = device < 0 ? nullptr : reinterpret_cast<void*>(std::intptr_t{0x100} + device);
    return 0;
}
int cuCtxGetDevice(int* device) {
    if (contexts[static_cast<std::size_t>(depth - 1)] < 0) {
        ++fake.misplaced_questions;
        return invalid_context;
    }
    *device = contexts[static_cast<std::size_t>(depth - 1)];
    return 0;
}
int cuCtxPushCurrent_v2(void* context) {
    ++fake.pushes;
    contexts[static_cast<std::size_t>(depth++)] = static_cast<int>(reinterpret_cast<std::intptr_t>(context) - 0x100);
    return 0;
}
int cuCtxPopCurrent_v2(void**) {
    ++fake.pops;
    --depth;
    return 0;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
    std::swap(*mode, capture_mode);
    return 0;
}
int cuLibraryLoadData(void** library, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
    note_capture_mode();
    *library = reinterpret_cast<void*>(std::intptr_t{0x1000} + 2 * ++fake.libraries);
    return code == nullptr ? invalid_value : result_of("cuLibraryLoadData");
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
    *kernel = static_cast<char*>(library) + (std::strcmp(name, product) == 0 ? 1 : 0);
    return *name == '\0' ? invalid_value : 0;
}
int cuKernelGetFunction(void** function, void* kernel) {
    *function = kernel;
    return depth > 0 && contexts[static_cast<std::size_t>(depth - 1)] >= 0 ? 0 : invalid_context;
}
int cuKernelSetAttribute(int attribute, int value, void*, int) {
    if (attribute == 9) return value == 100 ? 0 : invalid_value;
    if (attribute == 14) {
        fake.allows_large = value == 1 && !fake.refuses_large;
        return fake.refuses_large ? invalid_value : 0;
    }
    fake.shared_bytes = value;
    return attribute == 8 && value <= 232448 ? 0 : invalid_value;
}
int cuOccupancyMaxActiveClusters(int* count, void*, const tilewright::cuda::LaunchConfig* config) {
    *count = cluster_of(*config) <= fake.largest_cluster ? 1 : 0;
    return depth > 0 && contexts[static_cast<std::size_t>(depth - 1)] >= 0 ? 0 : invalid_context;
}
int cuLaunchKernelEx(const tilewright::cuda::LaunchConfig* config, void* kernel, void** parameters, void**) {
    if (cluster_of(*config) > (fake.allows_large ? fake.largest_cluster : 8)) return invalid_value;
    ++fake.launches;
    if (fake.record_last) {
        fake.before_last = std::exchange(fake.last, {});
        fake.last.config = *config;
        if (config->attribute_count > 0) fake.last.attribute = config->attributes[0];
        fake.last.kernel = kernel;
        fake.last.device = contexts[static_cast<std::size_t>(depth - 1)];
        if (is_product(kernel)) std::memcpy(&fake.last.arguments, parameters[0], sizeof(AllArguments));
    }
    return contexts[static_cast<std::size_t>(depth - 1)] < 0 ? invalid_context : result_of("cuLaunchKernelEx");
}

/// The rules of the CUDA driver API's page on cuTensorMapEncodeTiled. Words 0 to 2 tell tests what was described.
int cuTensorMapEncodeTiled(TensorMap* map, int type, std::uint32_t rank, void* base, const std::uint64_t* sizes,
                           const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* steps,
                           int interleave, int swizzle, int, int fill) {
    ++fake.maps;
    constexpr std::uint64_t stride_limit = std::uint64_t{1} << 40;
    const std::uint64_t bytes = type == 0 ? 1 : type == 1 ? 2 : 4;
    bool good = reinterpret_cast<std::uintptr_t>(map) % 64 == 0 && reinterpret_cast<std::uintptr_t>(base) % 16 == 0;
    good = good && type <= 2 && rank == 3 && interleave == 0 && fill == 0 && base != nullptr;
    for (std::uint32_t i = 0; i < rank; ++i) {
        good = good && sizes[i] > 0 && sizes[i] <= (std::uint64_t{1} << 32) && box[i] > 0 && box[i] <= 256;
        good = good && steps[i] == 1 && (i + 1 == rank || (strides[i] % 16 == 0 && strides[i] < stride_limit));
    }
    const std::uint64_t widest = swizzle == 3 ? 128 : 64;
    good = good && box[0] * bytes % 16 == 0 &&
           (swizzle == 0 || (swizzle >= 2 && swizzle <= 3 && box[0] * bytes <= widest));
    *map = {};
    map->words[0] = reinterpret_cast<std::uintptr_t>(base);
    map->words[1] = sizes[0];
    map->words[2] = box[1];
    return good ? result_of("cuTensorMapEncodeTiled") : invalid_value;
}
int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
    note_capture_mode();
    const auto index = static_cast<std::size_t>(fake.host_allocations++);
    if (index >= fake.reports.size() || bytes > sizeof(fake.reports[0]) || flags != 3) return invalid_value;
    *memory = &fake.reports[index];
    return 0;
}
int cuMemHostGetDevicePointer_v2(std::uint64_t* address, void* memory, unsigned) {
    *address = reinterpret_cast<std::uintptr_t>(memory);
    return 0;
}

int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
    note_capture_mode();
    if (const int result = result_of("cuMemAlloc_v2"); result != 0) return result;
    const std::lock_guard lock(mutex);
    const Allocation made{.file = memfd_create("fake", 0), .bytes = bytes};
    if (made.file < 0 || ftruncate(made.file, static_cast<off_t>(bytes)) != 0) return invalid_value;
    *address = mapped(made);
    if (*address == 0) return invalid_value;
    std::memset(reinterpret_cast<void*>(*address), 0xA5, bytes);  // not zeros
    allocations[*address] = made;
    ++fake.allocations;
    fake.allocated = bytes;
    return 0;
}
int cuMemFree_v2(std::uint64_t address) {
    const std::lock_guard lock(mutex);
    const auto found = allocations.find(address);
    if (found == allocations.end()) return invalid_value;
    munmap(reinterpret_cast<void*>(address), found->second.bytes);
    close(found->second.file);
    allocations.erase(found);
    --fake.allocations;
    return 0;
}
int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return result_of("cuMemcpyHtoD_v2");
}
int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return result_of("cuMemcpyDtoH_v2");
}
int cuMemsetD8Async(std::uint64_t address, unsigned char value, std::size_t bytes, void*) {
    std::memset(reinterpret_cast<void*>(address), value, bytes);
    return result_of("cuMemsetD8Async");
}
int cuStreamSynchronize(void*) {
    ++fake.waits;
    return result_of("cuStreamSynchronize");
}

// Ranks. A device's bus has its number.
int cuDeviceGetPCIBusId(char* text, int length, int device) {
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device) & 0xFF);
    return result_of("cuDeviceGetPCIBusId");
}
#ifndef FAKE_OF_OLD_DRIVER
int cuDeviceGetByPCIBusId(int* device, const char* text) {
    unsigned bus = 0;
    if (std::sscanf(text, "0000:%2x:00.0", &bus) != 1 || bus >= static_cast<unsigned>(fake.devices)) {
        return invalid_value;
    }
    *device = static_cast<int>(bus);
    return 0;
}
int cuDeviceCanAccessPeer(int* reaches, int, int) {
    *reaches = fake.reaches_peers ? 1 : 0;
    return 0;
}
int cuCtxEnablePeerAccess(void* context, unsigned flags) {
    int device = 0;
    if (cuCtxGetDevice(&device) != 0 || context == nullptr || flags != 0) return invalid_value;
    return result_of("cuCtxEnablePeerAccess");
}
int cuStreamIsCapturing(void* stream, int* status) {
    *status = fake.capturing != nullptr && stream == fake.capturing ? 1 : 0;
    return fake.capturing != nullptr && stream == nullptr ? 906 : 0;  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
}
int cuStreamQuery(void*) {
    ++fake.waits;
    if (fake.busy_queries > 0) {
        --fake.busy_queries;
        return 600;  // CUDA_ERROR_NOT_READY
    }
    return result_of("cuStreamQuery");
}
int cuIpcGetMemHandle(tilewright::cuda::MemoryHandle* handle, std::uint64_t address) {
    const std::lock_guard lock(mutex);
    if (allocations.count(address) == 0) return invalid_value;  // only the beginning of an allocation
    std::memcpy(handle->bytes, &address, sizeof(address));
    return result_of("cuIpcGetMemHandle");
}
int cuIpcOpenMemHandle_v2(std::uint64_t* address, tilewright::cuda::MemoryHandle handle, unsigned flags) {
    std::uint64_t exported = 0;
    std::memcpy(&exported, handle.bytes, sizeof(exported));
    const std::lock_guard lock(mutex);
    const auto found = allocations.find(exported);
    if (found == allocations.end() || flags != 1) return invalid_value;
    if (const int result = result_of("cuIpcOpenMemHandle_v2"); result != 0) return result;
    *address = mapped(found->second);
    imports[*address] = found->second.bytes;
    ++fake.imports;
    return 0;
}
int cuIpcCloseMemHandle(std::uint64_t address) {
    const std::lock_guard lock(mutex);
    const auto found = imports.find(address);
    if (found == imports.end()) return invalid_value;
    munmap(reinterpret_cast<void*>(address), found->second);
    imports.erase(found);
    --fake.imports;
    return 0;
}
#endif

// Not called by the library's launches.
int cuCtxSynchronize() { return 0; }
int cuMemsetD8_v2(std::uint64_t, unsigned char, std::size_t) { return invalid_value; }
int cuStreamCreate(void**, unsigned) { return invalid_value; }
int cuStreamDestroy_v2(void*) { return invalid_value; }
int cuStreamWaitEvent(void*, void*, unsigned) { return invalid_value; }
int cuMemFreeHost(void*) { return invalid_value; }
int cuMemcpyDtoDAsync_v2(std::uint64_t, std::uint64_t, std::size_t, void*) { return invalid_value; }
int cuEventCreate(void**, unsigned) { return invalid_value; }
int cuEventRecord(void*, void*) { return invalid_value; }
int cuEventSynchronize(void*) { return invalid_value; }
int cuEventElapsedTime(float*, void*, void*) { return invalid_value; }
int cuEventDestroy_v2(void*) { return invalid_value; }
int cuStreamBeginCapture_v2(void*, int) { return invalid_value; }
int cuStreamEndCapture(void*, void**) { return invalid_value; }
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long) { return invalid_value; }
int cuGraphLaunch(void*, void*) { return invalid_value; }
int cuGraphDestroy(void*) { return invalid_value; }
int cuGraphExecDestroy(void*) { return invalid_value; }
}
