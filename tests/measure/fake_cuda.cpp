// A fake of libcuda.so.1 whose GPU runs one thing after another, each for a given time. Events and waits behave as in a
// real one; memory is the host's.
#include "measure/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cuda/driver.h"
#include "measure/statistics.h"

using tilewright::measure::ClockReading;
using tilewright::test::FakeGpu;

namespace {

FakeGpu gpu;

constexpr int sms = 4;

void wait_until(FakeGpu::Time time) { std::this_thread::sleep_until(time); }

FakeGpu::Time end_of_queue() { return std::max(FakeGpu::Clock::now(), gpu.free_at); }

/// One reading for each SM, as the kernel writes them when its turn comes.
void write_clocks(void* address) {
    auto* readings = static_cast<ClockReading*>(address);
    const auto since_boot = end_of_queue().time_since_epoch();
    const auto nanoseconds =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count());
    for (int sm = 0; sm < sms; ++sm) {
        readings[sm] = {.cycles = static_cast<std::uint64_t>(static_cast<double>(nanoseconds) * 1e-9 * gpu.hertz),
                        .nanoseconds = nanoseconds};
    }
    ++gpu.clock_readings;
}

}  // namespace

extern "C" {

FakeGpu* tilewright_fake_gpu() { return &gpu; }
void tilewright_fake_call() {
    gpu.idle += gpu.free_at < FakeGpu::Clock::now() ? 1 : 0;
    gpu.free_at = end_of_queue() + gpu.call_time;
    gpu.most = std::max(gpu.most, gpu.free_at - FakeGpu::Clock::now());
    ++gpu.calls;
}

int cuInit(unsigned) { return 0; }
int cuGetErrorName(int, const char** name) {
    *name = "CUDA_ERROR";
    return 0;
}
int cuGetErrorString(int, const char** text) {
    *text = "error";
    return 0;
}
int cuDeviceGetCount(int* count) {
    *count = 1;
    return 0;
}
int cuDeviceGet(int* device, int index) {
    *device = index;
    return 0;
}
int cuDeviceGetName(char* name, int length, int) {
    std::strncpy(name, "NVIDIA fake", static_cast<std::size_t>(length));
    return 0;
}
int cuDeviceGetPCIBusId(char* text, int length, int) {
    std::strncpy(text, "0000:1b:00.0", static_cast<std::size_t>(length));
    return 0;
}
int cuDeviceGetAttribute(int* value, int, int) {
    *value = sms;
    return 0;
}
int cuDevicePrimaryCtxRetain(void**, int) { return 0; }
int cuCtxGetCurrent(void** context) {
    *context = nullptr;
    return 0;
}
int cuCtxGetDevice(int*) { return 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void**) { return 0; }
int cuCtxSynchronize() {
    wait_until(gpu.free_at);
    return 0;
}
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
int cuLibraryLoadData(void**, const void*, int*, void**, unsigned, int*, void**, unsigned) { return 0; }
int cuLibraryGetKernel(void** kernel, void*, const char* name) {
    *kernel = const_cast<char*>(name);
    return 0;
}
int cuKernelGetFunction(void** function, void* kernel) {
    *function = kernel;
    return 0;
}
int cuKernelSetAttribute(int, int, void*, int) { return 0; }
int cuLaunchKernelEx(const void*, void* kernel, void** arguments, void**) {
    if (std::strcmp(static_cast<const char*>(kernel), "read_clocks") == 0) {
        write_clocks(*static_cast<void**>(arguments[0]));
    }
    return 0;
}
int cuTensorMapEncodeTiled() { return 1; }
int cuMemHostAlloc(void**, std::size_t, unsigned) { return 1; }
int cuMemHostGetDevicePointer_v2(std::uint64_t*, void*, unsigned) { return 1; }
int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
    *address = reinterpret_cast<std::uintptr_t>(std::malloc(bytes));
    return *address == 0 ? 2 : 0;
}
int cuMemFree_v2(std::uint64_t address) {
    std::free(reinterpret_cast<void*>(address));
    return 0;
}
int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
}
int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
    wait_until(gpu.free_at);
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return 0;
}
int cuMemsetD8_v2(std::uint64_t address, unsigned char value, std::size_t bytes) {
    std::memset(reinterpret_cast<void*>(address), value, bytes);
    return 0;
}
int cuMemsetD8Async(std::uint64_t, unsigned char, std::size_t, void*) { return 1; }
int cuMemcpyDtoDAsync_v2(std::uint64_t, std::uint64_t, std::size_t, void*) { return 1; }
int cuMemFreeHost(void*) { return 1; }
int cuStreamWaitEvent(void*, void*, unsigned) { return 1; }
int cuStreamCreate(void** stream, unsigned) {
    *stream = &gpu;
    return 0;
}
int cuStreamDestroy_v2(void*) { return 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuEventCreate(FakeGpu::Time** event, unsigned) {
    *event = new FakeGpu::Time;
    ++gpu.live_events;
    return 0;
}
int cuEventRecord(FakeGpu::Time* event, void* stream) {
    *event = end_of_queue();
    return stream == &gpu ? 0 : 1;
}
int cuEventSynchronize(const FakeGpu::Time* event) {
    wait_until(*event);
    return 0;
}
int cuEventElapsedTime(float* milliseconds, const FakeGpu::Time* begin, const FakeGpu::Time* end) {
    *milliseconds = std::chrono::duration<float, std::milli>(*end - *begin).count();
    return 0;
}
int cuEventDestroy_v2(FakeGpu::Time* event) {
    delete event;
    --gpu.live_events;
    return 0;
}
int cuStreamBeginCapture_v2(void*, int) { return 1; }
int cuStreamEndCapture(void*, void**) { return 1; }
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long) { return 1; }
int cuGraphLaunch(void*, void*) { return 1; }
int cuGraphDestroy(void*) { return 1; }
int cuGraphExecDestroy(void*) { return 1; }
}
