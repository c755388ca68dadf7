#include "measure/power.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <chrono>
#include <cstddef>

namespace tilewright::measure {
namespace {

constexpr int nvml_success = 0;
constexpr auto period = std::chrono::milliseconds(5);

using Clock = std::chrono::steady_clock;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

}  // namespace

double watts_of_energy(std::span<const PowerSample> joules) {
    std::size_t first = 0;
    std::size_t last = 0;
    for (std::size_t i = 1; i < joules.size(); ++i) {
        if (joules[i].value == joules[i - 1].value) continue;
        if (first == 0) first = i;
        last = i;
    }
    if (first == last) return 0;
    return (joules[last].value - joules[first].value) / (joules[last].seconds - joules[first].seconds);
}

double watts_of_power(std::span<const PowerSample> watts) {
    if (watts.empty()) return 0;
    double sum = 0;
    for (const PowerSample& sample : watts) sum += sample.value;
    return sum / static_cast<double>(watts.size());
}

PowerMeter::PowerMeter(const std::string& bus_id, const std::string& library) : library_({library}) {
    if (!library_.is_open()) {
        throw Error("NVML (" + library +
                    ") was not found; it is part of the NVIDIA driver: in a container, start it with the driver "
                    "capability `utility` (NVIDIA_DRIVER_CAPABILITIES=compute,utility)");
    }
    for (const char* name : {"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetHandleByPciBusId_v2",
                             "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"}) {
        if (library_.function<int()>(name) != nullptr) continue;
        throw Error(fmt::format("NVML {} has no {}; install the NVIDIA driver's own", library_.path(), name));
    }
    require(library_.function<int()>("nvmlInit_v2")(), "nvmlInit");
    try {
        auto* find = library_.function<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
        require(find(bus_id.c_str(), &device_), "nvmlDeviceGetHandleByPciBusId");
        double value = 0;
        has_energy_ = joules(value) == nvml_success;
        if (!has_energy_) require(watts(value), "nvmlDeviceGetPowerUsage");
    } catch (...) {
        library_.function<int()>("nvmlShutdown")();
        throw;
    }
}

PowerMeter::~PowerMeter() {
    join();
    library_.function<int()>("nvmlShutdown")();
}

void PowerMeter::join() {
    running_ = false;
    if (sampler_.joinable()) sampler_.join();
}

void PowerMeter::require(int result, const char* call) const {
    if (result == nvml_success) return;
    const char* words = library_.function<const char*(int)>("nvmlErrorString")(result);
    throw Error(fmt::format("{} failed: {}; run `nvidia-smi`", call, words));
}

int PowerMeter::joules(double& value) const {
    unsigned long long millijoules = 0;
    const int result = library_.function<int(Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption")(
        device_, &millijoules);
    value = static_cast<double>(millijoules) * 1e-3;
    return result;
}

int PowerMeter::watts(double& value) const {
    unsigned milliwatts = 0;
    const int result = library_.function<int(Device, unsigned*)>("nvmlDeviceGetPowerUsage")(device_, &milliwatts);
    value = milliwatts * 1e-3;
    return result;
}

double PowerMeter::read() const {
    double value = 0;
    if (has_energy_) {
        require(joules(value), "nvmlDeviceGetTotalEnergyConsumption");
    } else {
        require(watts(value), "nvmlDeviceGetPowerUsage");
    }
    return value;
}

void PowerMeter::sample() {
    try {
        do {
            const double value = read();
            samples_.push_back({.seconds = now(), .value = value});
            std::this_thread::sleep_for(period);
        } while (running_);
    } catch (const Error& error) {
        failure_ = error.what();
    }
}

void PowerMeter::start() {
    join();
    samples_.clear();
    failure_.clear();
    running_ = true;
    sampler_ = std::thread([this] { sample(); });
}

double PowerMeter::stop() {
    join();
    if (!failure_.empty()) throw Error(failure_);
    const double watts = has_energy_ ? watts_of_energy(samples_) : watts_of_power(samples_);
    if (watts <= 0) {
        throw Error(
            fmt::format("NVML's {} did not move in {} readings; measure for longer", source(), samples_.size()));
    }
    return watts;
}

}  // namespace tilewright::measure
