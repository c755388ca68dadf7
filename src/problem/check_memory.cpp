// The memory of the tensors: pointers that can be used, on devices that the backend reaches, and an output that shares
// memory with no input.
#include "formats/quantize_check.h"
#include "problem/checks.h"
#include "problem/strided.h"

#include <algorithm>
#include <bit>

namespace tilewright::validation {
namespace {

void check_pointer(const NamedTensor& named, Findings& findings) {
    const Tensor& tensor = *named.tensor;
    const std::size_t alignment = static_cast<std::size_t>(std::max(bits(tensor.format) / 8, 1));
    if (tensor.data == nullptr) {
        findings.add({.operand = std::string(named.name),
                      .given = "a null pointer",
                      .expected = "memory for " + to_string(tensor.shape),
                      .advice = {}});
    } else if (std::bit_cast<std::uintptr_t>(tensor.data) % alignment != 0) {
        const std::uintptr_t remainder = std::bit_cast<std::uintptr_t>(tensor.data) % alignment;
        findings.add(
            {.operand = std::string(named.name),
             .given = "an address that is " + std::to_string(remainder) + " modulo " + std::to_string(alignment),
             .expected = "a multiple of " + std::to_string(alignment) + " for " + std::string(name(tensor.format)) +
                         " elements",
             .advice = {}});
    }
}

/// Where the backend expects every tensor. The GPU takes whichever device the first tensor on one names.
DeviceId home(const Problem& problem, Backend backend) {
    if (backend != Backend::hopper) return {};
    for (const NamedTensor& named : tensors_of(problem)) {
        if (named.tensor->given() && named.tensor->device.kind == DeviceId::Kind::cuda) return named.tensor->device;
    }
    return {.kind = DeviceId::Kind::cuda, .index = 0};
}

bool same_device(DeviceId x, DeviceId y) {
    return x.kind == y.kind && (x.kind == DeviceId::Kind::cpu || x.index == y.index);
}

void check_devices(const Problem& problem, Backend backend, Findings& findings) {
    const DeviceId wanted = home(problem, backend);
    std::vector<NamedTensor> strangers;
    std::size_t given = 0;
    for (const NamedTensor& named : tensors_of(problem)) {
        if (!named.tensor->given()) continue;
        ++given;
        if (!same_device(named.tensor->device, wanted)) strangers.push_back(named);
    }
    const bool together =
        strangers.size() == given && std::all_of(strangers.begin(), strangers.end(), [&](const NamedTensor& named) {
            return same_device(named.tensor->device, strangers.front().tensor->device);
        });
    for (const NamedTensor& named : strangers) {
        findings.add({.operand = together ? "all tensors" : std::string(named.name),
                      .given = formats::memory_of(named.tensor->device),
                      .expected = formats::memory_of(wanted) + " for the " + std::string(name(backend)) + " backend",
                      .advice = wanted.kind == DeviceId::Kind::cpu ? "copy it to the host" : "copy it to the device"});
        if (together) return;
    }
}

bool same_memory(const Tensor& x, const Tensor& y) {
    if (x.data != y.data || x.format != y.format || x.shape != y.shape) return false;
    for (int i = 0; i < x.shape.rank(); ++i) {
        if (x.shape[i] > 1 && x.strides[i] != y.strides[i]) return false;
    }
    return true;
}

void check_sharing(const Problem& problem, Findings& findings) {
    const Tensor& d = problem.d;
    if (!has_memory(d)) return;
    for (const NamedTensor& named : tensors_of(problem)) {
        const Tensor& other = *named.tensor;
        if (&other == &d || !has_memory(other) || !same_device(other.device, d.device) || !overlap(d, other)) continue;
        if (&other != &problem.c) {
            findings.add({.operand = "d",
                          .given = "memory that overlaps " + std::string(named.name),
                          .expected = "separate memory",
                          .advice = {}});
        } else if (!same_memory(other, d)) {
            findings.add({.operand = "c",
                          .given = "memory that overlaps d",
                          .expected = "separate memory, or d itself with d's strides " + to_string(d.strides),
                          .advice = {}});
        }
    }
}

}  // namespace

void check_memory(const Problem& problem, Backend backend, Findings& findings) {
    for (const NamedTensor& named : tensors_of(problem)) {
        if (has_sound_shape(*named.tensor) && !is_empty(*named.tensor)) check_pointer(named, findings);
    }
    check_devices(problem, backend, findings);
    check_sharing(problem, findings);
}

}  // namespace tilewright::validation
