// Memory that the library holds itself, for groups of ranks: on a GPU, and words of the host that a GPU writes. Also
// copies, and the name of a GPU. Device numbers are those of CUDA. Streams are CUstreams.
#pragma once

#include <cstdint>
#include <string>

namespace tilewright::cuda {

/// Memory of a GPU, zeros at first.
class DeviceMemory {
public:
    DeviceMemory(int device, std::int64_t bytes);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    void* data() const { return reinterpret_cast<void*>(address_); }

private:
    int device_;
    std::uint64_t address_ = 0;
};

/// Zeros in memory of the host that kernels of a GPU write.
class HostMemory {
public:
    HostMemory(int device, std::int64_t bytes);
    ~HostMemory();
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;

    void* data() const { return data_; }
    void* on_device() const { return reinterpret_cast<void*>(address_); }

private:
    int device_;
    void* data_ = nullptr;
    std::uint64_t address_ = 0;
};

/// Names a GPU to all processes of a host, as 0000:3b:00.0.
std::string bus_id(int device);

/// A point in a stream for which another stream of the same GPU waits.
class Event {
public:
    explicit Event(int device);
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void record(void* stream);
    void hold(void* stream) const;  // until the recorded point

private:
    int device_;
    struct DriverEvent* event_ = nullptr;
};

/// Copies within a GPU, in the order of a stream.
void copy(int device, void* to, const void* from, std::int64_t bytes, void* stream);
void fill(int device, void* to, unsigned char value, std::int64_t bytes, void* stream);
void write_to_device(int device, void* to, const void* from, std::int64_t bytes);
/// Waits for the stream first.
void read_from_device(int device, void* to, const void* from, std::int64_t bytes, void* stream);

}  // namespace tilewright::cuda
