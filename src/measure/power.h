// How many watts a GPU draws, from NVML (the library of nvidia-smi), opened at run time.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cuda/library_search.h"

namespace tilewright::measure {

/// A reading of the power, and its time by the host's clock.
struct PowerSample {
    double seconds = 0;
    double value = 0;  // joules since the driver was loaded, or watts
};

/// The mean power from joules. The counter moves some ten times a second, so the time counts from the first of its
/// steps that was seen to the last one. Zero where it moved less than twice.
double watts_of_energy(std::span<const PowerSample> joules);

/// The mean of watts that were read at even intervals. Zero for none.
double watts_of_power(std::span<const PowerSample> watts);

class PowerMeter {
public:
    /// `bus_id` in CUDA's spelling. Throws Error, which names the missing part: the library, a function of it, the
    /// device, or both of its counters.
    explicit PowerMeter(const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");
    ~PowerMeter();
    PowerMeter(const PowerMeter&) = delete;
    PowerMeter& operator=(const PowerMeter&) = delete;

    /// "energy counter", or "power readings" where the device has no such counter.
    const char* source() const { return has_energy_ ? "energy counter" : "power readings"; }

    /// Joules or watts, depending on `source`.
    double read() const;

    /// Reads on another thread, every few milliseconds, until `stop`.
    void start();
    /// Watts between start and stop. Throws Error where too little was read, or nothing any more.
    double stop();

private:
    using Device = struct NvmlDevice*;

    void join();
    void require(int result, const char* call) const;
    void sample();
    int joules(double& value) const;
    int watts(double& value) const;

    cuda::OpenLibrary library_;
    Device device_ = nullptr;
    bool has_energy_ = true;
    std::thread sampler_;
    std::atomic<bool> running_{false};
    std::vector<PowerSample> samples_;
    std::string failure_;  // on the other thread
};

}  // namespace tilewright::measure
