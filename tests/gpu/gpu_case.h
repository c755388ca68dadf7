// A test case on a GPU: its tensors copied to memory of the device between poisoned bands, its result compared byte for
// byte with the CPU's `hopper` arithmetic.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "check/case.h"
#include "cuda/driver.h"

namespace tilewright::test {

/// The device's primary context is current in this thread while this lives.
class CurrentDevice {
public:
    explicit CurrentDevice(int device = 0);
    ~CurrentDevice();
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;
};

class Stream {
public:
    Stream();
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    cuda::StreamHandle handle() const { return handle_; }
    void wait() const;

private:
    cuda::StreamHandle handle_ = nullptr;
};

/// Some bytes of the device between two bands of 4 KiB; everything is 0xFF at first.
class DeviceMemory {
public:
    explicit DeviceMemory(std::size_t bytes);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    void* data() const { return reinterpret_cast<void*>(address_ + check::guard_band); }
    void upload(const void* from) const;
    std::vector<std::byte> download() const;
    /// Whether both bands are as they were.
    bool bands_are_whole() const;

private:
    cuda::DeviceAddress address_ = 0;
    std::size_t bytes_ = 0;
};

class GpuCase {
public:
    explicit GpuCase(const check::CaseSpec& spec, int device = 0);

    /// With all tensors on the device.
    const Problem& problem() const { return problem_; }
    Problem& problem() { return problem_; }
    Geometry geometry() const { return tilewright::geometry(problem_); }

    /// D as it was before the first run.
    void reset() const;

    /// Inputs, sizes of groups and the expected result become those of another case of the same shapes; D is reset.
    void take_data(const GpuCase& other);

    /// What differs from the CPU's bits, or was written though it must not be; empty if nothing. Wait for the GPU
    /// first.
    std::string difference() const;
    std::vector<std::byte> output() const { return d_->download(); }

private:
    void place(Tensor& tensor, int device);

    check::Case case_;
    Problem problem_;
    std::vector<std::byte> pristine_;
    std::vector<std::byte> expected_;
    std::vector<std::unique_ptr<DeviceMemory>> memory_;
    std::vector<std::vector<std::byte>> inputs_;  // what memory_ holds, D aside
    DeviceMemory* d_ = nullptr;
};

/// Runs it with the tile that the library chooses, on the default stream, and waits.
std::string run_and_compare(const check::CaseSpec& spec);

}  // namespace tilewright::test
