#include "cuda/memory.h"

#include <tilewright/error.h>

#include <array>
#include <cstring>

#include "cuda/runtime.h"

namespace tilewright::cuda {
namespace {

constexpr unsigned without_timing = 2;  // CU_EVENT_DISABLE_TIMING

DeviceAddress address_of(const void* data) { return reinterpret_cast<DeviceAddress>(data); }
std::size_t size_of(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }
StreamHandle handle(void* stream) { return static_cast<StreamHandle>(stream); }

/// For destructors: at the end of a process the driver may be gone.
template <class Work>
void quietly(int device, Work work) {
    try {
        const RelaxedCapture relaxed(driver());
        const ContextScope scope = runtime().device(device).context();
        work();
    } catch (const Error&) {
    }
}

}  // namespace

DeviceMemory::DeviceMemory(int device, std::int64_t bytes) : device_(device) {
    const RelaxedCapture relaxed(driver());
    const ContextScope scope = runtime().device(device).context();
    driver().require(driver().call.allocate(&address_, size_of(bytes)), "cuMemAlloc", device);
    const int result = driver().call.fill(address_, 0, size_of(bytes));
    if (result != 0) driver().call.release(address_);
    driver().require(result, "cuMemsetD8", device);
}

DeviceMemory::~DeviceMemory() {
    quietly(device_, [&] { driver().call.release(address_); });
}

HostMemory::HostMemory(int device, std::int64_t bytes) : device_(device) {
    const RelaxedCapture relaxed(driver());
    const ContextScope scope = runtime().device(device).context();
    driver().require(driver().call.host_allocate(&data_, size_of(bytes), portable_and_mapped), "cuMemHostAlloc",
                     device);
    driver().require(driver().call.host_device_address(&address_, data_, 0), "cuMemHostGetDevicePointer", device);
    std::memset(data_, 0, size_of(bytes));
}

HostMemory::~HostMemory() {
    quietly(device_, [&] { driver().call.host_release(data_); });
}

std::string bus_id(int device) {
    std::array<char, 32> text{};
    int handle = 0;
    driver().require(driver().call.device_get(&handle, device), "cuDeviceGet", device);
    driver().require(driver().call.device_bus_id(text.data(), static_cast<int>(text.size()) - 1, handle),
                     "cuDeviceGetPCIBusId", device);
    return text.data();
}

Event::Event(int device) : device_(device) {
    const ContextScope scope = runtime().device(device).context();
    driver().require(driver().call.event_create(&event_, without_timing), "cuEventCreate", device);
}

Event::~Event() {
    quietly(device_, [&] { driver().call.event_destroy(event_); });
}

void Event::record(void* stream) {
    const ContextScope scope = runtime().device(device_).context();
    driver().require(driver().call.event_record(event_, handle(stream)), "cuEventRecord", device_);
}

void Event::hold(void* stream) const {
    const ContextScope scope = runtime().device(device_).context();
    driver().require(driver().call.stream_wait_event(handle(stream), event_, 0), "cuStreamWaitEvent", device_);
}

void copy(int device, void* to, const void* from, std::int64_t bytes, void* stream) {
    const ContextScope scope = runtime().device(device).context();
    driver().require(driver().call.copy_in_order(address_of(to), address_of(from), size_of(bytes), handle(stream)),
                     "cuMemcpyDtoDAsync", device);
}

void fill(int device, void* to, unsigned char value, std::int64_t bytes, void* stream) {
    const ContextScope scope = runtime().device(device).context();
    driver().require(driver().call.fill_bytes_in_order(address_of(to), value, size_of(bytes), handle(stream)),
                     "cuMemsetD8Async", device);
}

void write_to_device(int device, void* to, const void* from, std::int64_t bytes) {
    const ContextScope scope = runtime().device(device).context();
    driver().require(driver().call.write(address_of(to), from, size_of(bytes)), "cuMemcpyHtoD", device);
}

void read_from_device(int device, void* to, const void* from, std::int64_t bytes, void* stream) {
    const ContextScope scope = runtime().device(device).context();
    driver().require(driver().call.stream_synchronize(handle(stream)), "cuStreamSynchronize", device);
    driver().require(driver().call.copy_to_host(to, address_of(from), size_of(bytes)), "cuMemcpyDtoH", device);
}

}  // namespace tilewright::cuda
