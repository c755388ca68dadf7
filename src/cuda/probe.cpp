#include "cuda/probe.h"

#include <fmt/format.h>

#include <array>

#include "cuda/library_search.h"

namespace tilewright::cuda {
namespace {

// The driver API's names, as in NVIDIA's "CUDA Driver API". CUdevice and CUresult are ints, CUdevice_attribute is an
// enum.
constexpr int success = 0;
constexpr int attribute_multiprocessor_count = 16;
constexpr int attribute_capability_major = 75;
constexpr int attribute_capability_minor = 76;

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

struct Driver {
    explicit Driver(const OpenLibrary& library)
        : init(library.function<int(unsigned)>("cuInit")),
          version(library.function<int(int*)>("cuDriverGetVersion")),
          error_string(library.function<int(int, const char**)>("cuGetErrorString")),
          count(library.function<int(int*)>("cuDeviceGetCount")),
          device(library.function<int(int*, int)>("cuDeviceGet")),
          name(library.function<int(char*, int, int)>("cuDeviceGetName")),
          attribute(library.function<int(int*, int, int)>("cuDeviceGetAttribute")),
          memory(library.function<int(std::size_t*, int)>("cuDeviceTotalMem_v2")),
          can_access_peer(library.function<int(int*, int, int)>("cuDeviceCanAccessPeer")) {}

    bool complete() const {
        return init != nullptr && version != nullptr && error_string != nullptr && count != nullptr &&
               device != nullptr && name != nullptr && attribute != nullptr && memory != nullptr;
    }
    std::string describe(int error) const {
        const char* text = nullptr;
        if (error_string(error, &text) == success && text != nullptr) return fmt::format("{} (error {})", text, error);
        return fmt::format("error {}", error);
    }

    int (*init)(unsigned);
    int (*version)(int*);
    int (*error_string)(int, const char**);
    int (*count)(int*);
    int (*device)(int*, int);
    int (*name)(char*, int, int);
    int (*attribute)(int*, int, int);
    int (*memory)(std::size_t*, int);
    int (*can_access_peer)(int*, int, int);  // may be null
};

Gpu describe_gpu(const Driver& driver, int index) {
    Gpu gpu{.index = index};
    int device = 0;
    if (driver.device(&device, index) != success) return gpu;
    std::array<char, 256> name{};
    if (driver.name(name.data(), static_cast<int>(name.size()) - 1, device) == success) gpu.name = name.data();
    driver.attribute(&gpu.major, attribute_capability_major, device);
    driver.attribute(&gpu.minor, attribute_capability_minor, device);
    driver.attribute(&gpu.multiprocessors, attribute_multiprocessor_count, device);
    std::size_t bytes = 0;
    if (driver.memory(&bytes, device) == success) gpu.memory_bytes = bytes;
    return gpu;
}

bool reaches(const Driver& driver, int index, int other) {
    int device = 0, peer = 0, can = 0;
    return driver.can_access_peer != nullptr && driver.device(&device, index) == success &&
           driver.device(&peer, other) == success && driver.can_access_peer(&can, device, peer) == success && can != 0;
}

void probe_driver(Probe& found) {
    const OpenLibrary library({"libcuda.so.1"});
    found.driver.path = library.path();
    if (!library.is_open()) {
        found.driver.problem = "no NVIDIA driver: libcuda.so.1 was not found";
        found.driver.advice = "install the NVIDIA driver (in a container: start it with the GPUs, e.g. --gpus all)";
        return;
    }
    const Driver driver(library);
    if (!driver.complete()) {
        found.driver.problem = "libcuda.so.1 lacks functions of the driver API";
        found.driver.advice = "install a driver for CUDA 12 or later";
        return;
    }
    int version = 0;
    if (driver.version(&version) == success) found.driver.version = version_text(version);
    int count = 0;
    int error = driver.init(0);
    if (error == success) error = driver.count(&count);
    if (error != success) {
        found.driver.problem = "the NVIDIA driver does not start: " + driver.describe(error);
        found.driver.advice = "run `nvidia-smi`; a driver update may need a restart";
        return;
    }
    found.driver.usable = true;
    for (int i = 0; i < count; ++i) found.gpus.push_back(describe_gpu(driver, i));
    found.unreached = unreached_gpu(count, [&](int index, int other) { return reaches(driver, index, other); });
}

void probe_nvrtc(Library& nvrtc) {
    const OpenLibrary library(nvrtc_candidates());
    nvrtc.path = library.path();
    nvrtc.advice = "pip install nvidia-cuda-nvrtc (or the CUDA toolkit)";
    if (!library.is_open()) {
        nvrtc.problem = "libnvrtc.so was not found";
        return;
    }
    auto* version = library.function<int(int*, int*)>("nvrtcVersion");
    int major = 0;
    int minor = 0;
    if (version == nullptr || version(&major, &minor) != success) {
        nvrtc.problem = library.path() + " is not NVRTC";
        return;
    }
    nvrtc.usable = true;
    nvrtc.version = fmt::format("{}.{}", major, minor);
    nvrtc.advice.clear();
}

}  // namespace

std::string unreached_gpu(int gpus, const std::function<bool(int index, int other)>& reaches) {
    for (int index = 0; index < gpus; ++index) {
        for (int other = 0; other < gpus; ++other) {
            if (other != index && !reaches(index, other)) {
                return fmt::format("GPU {} does not reach the memory of GPU {}", index, other);
            }
        }
    }
    return "";
}

Probe probe() {
    Probe found;
    probe_driver(found);
    probe_nvrtc(found.nvrtc);
    return found;
}

}  // namespace tilewright::cuda
