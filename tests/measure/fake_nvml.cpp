// A fake of libnvidia-ml.so.1, with one device.
#include "measure/fake_nvml.h"

using tilewright::test::FakeNvml;

namespace {

FakeNvml fake;

// nvmlReturn_t
constexpr int success = 0;
constexpr int not_supported = 3;
constexpr int not_found = 6;
constexpr int gpu_is_lost = 15;

}  // namespace

extern "C" {

FakeNvml* tilewright_fake_nvml() { return &fake; }

int nvmlInit_v2() {
    ++fake.open;
    return success;
}
int nvmlShutdown() {
    --fake.open;
    return success;
}
const char* nvmlErrorString(int result) {
    switch (result) {
        case not_supported: return "Not Supported";
        case not_found: return "Not Found";
        default: return "GPU is lost";
    }
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
    if (fake.device != bus_id) return not_found;
    *device = &fake;
    return success;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
    if (fake.is_lost || device != &fake) return gpu_is_lost;
    if (!fake.has_energy) return not_supported;
    *millijoules = fake.millijoules += fake.step;
    return success;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    if (fake.is_lost || device != &fake) return gpu_is_lost;
    if (!fake.has_power) return not_supported;
    *milliwatts = fake.milliwatts;
    return success;
}
}
