#include "measure/device.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>
#include <utility>

#include "measure/kernels.h"

namespace tilewright::measure {
namespace {

constexpr unsigned threads_per_block = 512;
constexpr unsigned blocks_per_sm = 4;
// The ring of stream_chunks, as kernels.cpp has it.
constexpr int stream_chunk = 16384;
constexpr int stream_bytes = 12 * stream_chunk;  // of shared memory

const cuda::DriverCalls& call() { return cuda::driver().call; }

void require(int result, const char* name, int device = 0) { cuda::driver().require(result, name, device); }

}  // namespace

Buffer::Buffer(std::size_t bytes) : size_(bytes) {
    if (bytes > 0) require(call().allocate(&address_, bytes), "cuMemAlloc");
}

Buffer::~Buffer() {
    if (address_ != 0) call().release(address_);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    return *this;
}

void Buffer::upload(const void* from, std::size_t bytes, std::size_t offset) const {
    if (bytes > 0) require(call().write(address_ + offset, from, bytes), "cuMemcpyHtoD");
}

void Buffer::download(void* to, std::size_t bytes, std::size_t offset) const {
    if (bytes > 0) require(call().copy_to_host(to, address_ + offset, bytes), "cuMemcpyDtoH");
}

void Buffer::fill(unsigned char value) const {
    if (size_ > 0) require(call().fill(address_, value, size_), "cuMemsetD8");
}

Device::Device(int index) : index_(index) {
    int device = 0;
    cuda::ContextHandle context = nullptr;
    require(call().device_get(&device, index), "cuDeviceGet", index);
    require(call().device_attribute(&sms_, cuda::attribute_multiprocessor_count, device), "cuDeviceGetAttribute",
            index);
    require(call().primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain", index);
    require(call().context_push(context), "cuCtxPushCurrent", index);
    name_device();
    require(call().stream_create(&stream_, cuda::non_blocking_stream), "cuStreamCreate", index);
    require(call().library_load(&library_, kernels_ptx().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            "cuLibraryLoadData", index);
    fill_ = function("fill_words");
    read_ = function("read_words");
    clocks_ = function("read_clocks");
    hash_ = function("hash_words");
    stream_chunks_ = function("stream_chunks", stream_bytes);
}

Device::~Device() {
    call().stream_destroy(stream_);
    cuda::ContextHandle context = nullptr;
    call().context_pop(&context);
}

void Device::name_device() {
    std::array<char, 256> text{};
    require(call().device_name(text.data(), static_cast<int>(text.size()) - 1, index_), "cuDeviceGetName", index_);
    name_ = text.data();
}

std::string Device::bus_id() const {
    std::array<char, 32> text{};
    require(call().device_bus_id(text.data(), static_cast<int>(text.size()) - 1, index_), "cuDeviceGetPCIBusId",
            index_);
    return text.data();
}

cuda::FunctionHandle Device::function(const char* name, int shared_bytes) const {
    cuda::KernelHandle kernel = nullptr;
    cuda::FunctionHandle found = nullptr;
    require(call().library_kernel(&kernel, library_, name), "cuLibraryGetKernel", index_);
    if (shared_bytes > 0) {
        require(call().kernel_set_attribute(cuda::attribute_max_dynamic_shared_bytes, shared_bytes, kernel, index_),
                "cuKernelSetAttribute", index_);
    }
    require(call().kernel_function(&found, kernel), "cuKernelGetFunction", index_);
    return found;
}

void Device::synchronize() const { require(call().context_synchronize(), "cuCtxSynchronize", index_); }

void Device::enqueue(cuda::FunctionHandle kernel, unsigned blocks, unsigned threads, void** arguments,
                     cuda::StreamHandle stream, unsigned shared_bytes) const {
    cuda::LaunchConfig config;
    config.grid[0] = blocks;
    config.block[0] = threads;
    config.shared_bytes = shared_bytes;
    config.stream = stream;
    require(call().launch(&config, kernel, arguments, nullptr), "cuLaunchKernelEx", index_);
}

void Device::enqueue_fill(const Buffer& to, std::uint32_t value, cuda::StreamHandle stream) const {
    cuda::DeviceAddress address = to.address();
    std::uint64_t vectors = to.size() / 16;
    std::array<void*, 3> arguments{&address, &vectors, &value};
    enqueue(fill_, static_cast<unsigned>(sms_) * blocks_per_sm, threads_per_block, arguments.data(), stream);
}

void Device::enqueue_read(const Buffer& from, const Buffer& unused, cuda::StreamHandle stream) const {
    cuda::DeviceAddress address = from.address();
    cuda::DeviceAddress sink = unused.address();
    std::uint64_t vectors = from.size() / 16;
    std::array<void*, 3> arguments{&address, &vectors, &sink};
    enqueue(read_, static_cast<unsigned>(sms_) * blocks_per_sm, threads_per_block, arguments.data(), stream);
}

void Device::enqueue_clocks(const Buffer& readings, cuda::StreamHandle stream) const {
    cuda::DeviceAddress address = readings.address();
    std::array<void*, 1> arguments{&address};
    enqueue(clocks_, static_cast<unsigned>(sms_), 1, arguments.data(), stream);
}

void Device::enqueue_hash(const Buffer& from, const Buffer& sum, cuda::StreamHandle stream) const {
    cuda::DeviceAddress address = from.address();
    cuda::DeviceAddress to = sum.address();
    std::uint64_t words = from.size() / 4;
    std::array<void*, 3> arguments{&address, &words, &to};
    enqueue(hash_, static_cast<unsigned>(sms_), threads_per_block, arguments.data(), stream);
}

std::uint64_t Device::enqueue_stream(const void* from, std::size_t bytes, const Buffer& arrived,
                                     cuda::StreamHandle stream) const {
    std::uint64_t chunks = bytes / stream_chunk;
    cuda::DeviceAddress to = arrived.address();
    std::array<void*, 3> arguments{&from, &chunks, &to};
    enqueue(stream_chunks_, static_cast<unsigned>(sms_), 1, arguments.data(), stream, stream_bytes);
    return chunks;
}

}  // namespace tilewright::measure
