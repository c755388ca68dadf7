// One GPU for measurements: its context is current while this lives, with a stream, memory and the small kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/driver.h"

namespace tilewright::measure {

/// Memory of the GPU, freed when this goes.
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t bytes);
    ~Buffer();
    Buffer(Buffer&& other) noexcept { *this = static_cast<Buffer&&>(other); }
    Buffer& operator=(Buffer&& other) noexcept;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
    cuda::DeviceAddress address() const { return address_; }
    std::size_t size() const { return size_; }

    /// Whole or in part; they wait for the copy.
    void upload(const void* from, std::size_t bytes, std::size_t offset = 0) const;
    void download(void* to, std::size_t bytes, std::size_t offset = 0) const;
    void fill(unsigned char value) const;

private:
    cuda::DeviceAddress address_ = 0;
    std::size_t size_ = 0;
};

class Device {
public:
    /// Throws Error where there is no such GPU.
    explicit Device(int index = 0);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const std::string& name() const { return name_; }
    int sms() const { return sms_; }
    /// "0000:1b:00.0": by which other libraries than CUDA know the same GPU.
    std::string bus_id() const;
    cuda::StreamHandle stream() const { return stream_; }
    void synchronize() const;

    // Enqueued on the device's stream, or on another one of it.
    void enqueue_fill(const Buffer& to, std::uint32_t value, cuda::StreamHandle stream) const;
    void enqueue_read(const Buffer& from, const Buffer& unused, cuda::StreamHandle stream) const;
    void enqueue_clocks(const Buffer& readings, cuda::StreamHandle stream) const;
    /// Adds to the 8 bytes of `sum`; bytes beyond the last whole word do not count.
    void enqueue_hash(const Buffer& from, const Buffer& sum, cuda::StreamHandle stream) const;
    /// Copies whole chunks from there into shared memory by TMA, and no more. Adds the number of chunks that arrived to
    /// the 8 bytes of `arrived`; returns the number of chunks.
    std::uint64_t enqueue_stream(const void* from, std::size_t bytes, const Buffer& arrived,
                                 cuda::StreamHandle stream) const;

private:
    void enqueue(cuda::FunctionHandle kernel, unsigned blocks, unsigned threads, void** arguments,
                 cuda::StreamHandle stream, unsigned shared_bytes = 0) const;
    cuda::FunctionHandle function(const char* name, int shared_bytes = 0) const;
    void name_device();

    int index_;
    int sms_ = 0;
    std::string name_;
    cuda::StreamHandle stream_ = nullptr;
    cuda::LibraryHandle library_ = nullptr;
    cuda::FunctionHandle fill_ = nullptr;
    cuda::FunctionHandle read_ = nullptr;
    cuda::FunctionHandle clocks_ = nullptr;
    cuda::FunctionHandle hash_ = nullptr;
    cuda::FunctionHandle stream_chunks_ = nullptr;
};

}  // namespace tilewright::measure
