#include "cli/backends.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "cli/words.h"

namespace tilewright::cli {
namespace {

BackendStatus hopper_status(const cuda::Probe& found) {
    BackendStatus status{.backend = Backend::hopper};
    const auto gpu = std::find_if(found.gpus.begin(), found.gpus.end(), [](const auto& g) { return g.is_hopper(); });
    if (!found.driver.usable) {
        status.why = found.driver.problem;
        status.advice = found.driver.advice;
    } else if (found.gpus.empty()) {
        status.why = "the driver finds no GPU";
        status.advice = "run `nvidia-smi`; in a container, start it with the GPUs, e.g. --gpus all";
    } else if (gpu == found.gpus.end()) {
        const cuda::Gpu& first = found.gpus.front();
        status.why = fmt::format("{} has compute capability {}.{}", first.name, first.major, first.minor);
        status.advice = "the kernels need compute capability 9.0 (H100, H200, GH200)";
    } else {
        status.available = true;
        status.device = fmt::format("{}, {} SMs", gpu->name, gpu->multiprocessors);
    }
    return status;
}

}  // namespace

std::string cpu_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("model name", 0) != 0) continue;
        const std::size_t colon = line.find(": ");
        if (colon != std::string::npos) return line.substr(colon + 2);
    }
    return "unknown processor";
}

int usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::vector<BackendStatus> backend_statuses(const cuda::Probe& found) {
    const BackendStatus cpu{
        .backend = Backend::cpu, .available = true, .device = fmt::format("{}, {} cores", cpu_name(), usable_cores())};
    return {hopper_status(found), cpu};
}

void require_gpu(const std::string& what) {
    for (const BackendStatus& status : backend_statuses(cuda::probe())) {
        if (status.backend != Backend::hopper || status.available) continue;
        throw std::runtime_error(fmt::format("{} needs a GPU: {}; {}", what, status.why, status.advice));
    }
}

BackendStatus chosen_backend(const std::string& word) {
    const Backend wanted = parse_backend(word).value();
    for (const BackendStatus& status : backend_statuses(cuda::probe())) {
        if (wanted == Backend::automatic ? status.available : status.backend == wanted) {
            if (status.available) return status;
            throw std::runtime_error(fmt::format("backend {} is unavailable: {}; {}", word, status.why, status.advice));
        }
    }
    throw std::runtime_error("no backend is available");
}

}  // namespace tilewright::cli
