// A test case on a GPU: its tensors lie in one allocation of the device between poisoned bands, its result is compared
// byte for byte with the CPU's `bit_exact` arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

class DeviceMemory {
public:
    explicit DeviceMemory(std::size_t bytes);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    void* at(std::size_t offset) const { return reinterpret_cast<void*>(address_ + offset); }
    void upload(std::span<const std::byte> bytes, std::size_t offset) const;
    std::vector<std::byte> download(std::size_t offset, std::size_t bytes) const;

private:
    cuda::DeviceAddress address_ = 0;
};

class GpuCase {
public:
    /// `cuts`: where the tile that will run splits k (planner::cuts); without them, that of the planner.
    explicit GpuCase(const check::CaseSpec& spec, const std::optional<std::vector<std::int64_t>>& cuts = {},
                     int device = 0);

    /// With all tensors on the device.
    const Problem& problem() const { return problem_; }
    Problem& problem() { return problem_; }
    Geometry geometry() const { return tilewright::geometry(problem_); }

    /// D as it was before the first run.
    void reset() const;
    /// D poisoned, in the stream's order.
    void poison_output(cuda::StreamHandle stream) const;

    /// Inputs, sizes of groups and the expected result become those of another case of the same shapes; D is reset.
    void take_data(const GpuCase& other);

    /// What differs from the CPU's bits, or was written though it must not be; empty if nothing. Wait for the GPU
    /// first.
    std::string difference() const;
    std::vector<std::byte> output() const { return memory_->download(d_.begin, d_.bytes); }
    /// Whether D alone, which must have no gaps, is as the CPU has it.
    bool output_is_right() const;

private:
    /// Where a tensor lies, and behind it a band.
    struct Place {
        std::string name;
        std::size_t begin = 0;
        std::size_t bytes = 0;
    };

    void place(std::string name, std::span<const std::byte> bytes);
    void set_pointers(int device);
    std::string difference(const std::vector<std::byte>& given) const;

    check::Case case_;
    Problem problem_;
    std::vector<Place> places_;  // D's is the last
    Place d_;
    std::vector<std::byte> pristine_;  // all of memory_ before the first run
    std::vector<std::byte> expected_;  // and after it
    std::unique_ptr<DeviceMemory> memory_;
};

/// Runs it with the tile that the library chooses, on the default stream, and waits. What differs, as GpuCase says it.
std::string run_and_compare(const check::CaseSpec& spec);

/// The same for many cases, one on each core of the host at a time; stops at the first that differs.
std::string run_and_compare(const std::vector<check::CaseSpec>& specs);

}  // namespace tilewright::test
