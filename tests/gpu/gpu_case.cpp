#include "gpu/gpu_case.h"

#include <fmt/format.h>
#include <tilewright/run.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "cpu/backend.h"
#include "cuda/runtime.h"

namespace tilewright::test {
namespace {

const cuda::Driver& driver() { return cuda::driver(); }

/// Bytes from the first element to the end of the last one.
std::size_t bytes_of(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.shape[i] == 0) return 0;
        last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    return static_cast<std::size_t>((last + 1) * bits(tensor.format) / 8);
}

bool is_poison(const std::vector<std::byte>& bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == check::poison; });
}

}  // namespace

CurrentDevice::CurrentDevice(int device) {
    cuda::ContextHandle context = nullptr;
    int handle = 0;
    driver().require(driver().call.device_get(&handle, device), "cuDeviceGet", device);
    driver().require(driver().call.primary_context_retain(&context, handle), "cuDevicePrimaryCtxRetain", device);
    driver().require(driver().call.context_push(context), "cuCtxPushCurrent", device);
}

CurrentDevice::~CurrentDevice() {
    cuda::ContextHandle popped = nullptr;
    driver().call.context_pop(&popped);
}

Stream::Stream() {
    constexpr unsigned non_blocking = 1;
    driver().require(driver().call.stream_create(&handle_, non_blocking), "cuStreamCreate", 0);
}

Stream::~Stream() { driver().call.stream_destroy(handle_); }

void Stream::wait() const { driver().require(driver().call.stream_synchronize(handle_), "cuStreamSynchronize", 0); }

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    const std::size_t whole = bytes + 2 * check::guard_band;
    driver().require(driver().call.allocate(&address_, whole), "cuMemAlloc", 0);
    driver().require(driver().call.fill_bytes(address_, std::to_integer<unsigned char>(check::poison), whole),
                     "cuMemsetD8", 0);
}

DeviceMemory::~DeviceMemory() { driver().call.release(address_); }

void DeviceMemory::upload(const void* from) const {
    if (bytes_ == 0) return;
    driver().require(driver().call.copy_to_device(address_ + check::guard_band, from, bytes_), "cuMemcpyHtoD", 0);
}

std::vector<std::byte> DeviceMemory::download() const {
    std::vector<std::byte> bytes(bytes_);
    if (bytes_ == 0) return bytes;
    driver().require(driver().call.copy_to_host(bytes.data(), address_ + check::guard_band, bytes_), "cuMemcpyDtoH", 0);
    return bytes;
}

bool DeviceMemory::bands_are_whole() const {
    for (const cuda::DeviceAddress begin : {address_, address_ + check::guard_band + bytes_}) {
        std::vector<std::byte> band(check::guard_band);
        driver().require(driver().call.copy_to_host(band.data(), begin, band.size()), "cuMemcpyDtoH", 0);
        if (!is_poison(band)) return false;
    }
    return true;
}

GpuCase::GpuCase(const check::CaseSpec& spec, int device) : case_(spec), problem_(case_.problem()) {
    case_.reset_output();
    pristine_ = case_.output();
    cpu::run_hopper(case_.geometry(), 0);
    expected_ = case_.output();
    const bool in_place = problem_.c.data == problem_.d.data;
    for (Operand* operand : {&problem_.a, &problem_.b}) {
        place(operand->values, device);
        place(operand->scales, device);
    }
    place(problem_.groups.sizes, device);
    if (!in_place) place(problem_.c, device);
    memory_.push_back(std::make_unique<DeviceMemory>(pristine_.size()));
    d_ = memory_.back().get();
    problem_.d.data = d_->data();
    problem_.d.device = {.kind = DeviceId::Kind::cuda, .index = device};
    if (in_place && problem_.c.given()) problem_.c = problem_.d;
    reset();
}

void GpuCase::place(Tensor& tensor, int device) {
    if (!tensor.given()) return;
    const auto* bytes = static_cast<const std::byte*>(tensor.data);
    inputs_.emplace_back(bytes, bytes + bytes_of(tensor));
    memory_.push_back(std::make_unique<DeviceMemory>(inputs_.back().size()));
    memory_.back()->upload(inputs_.back().data());
    tensor.data = memory_.back()->data();
    tensor.device = {.kind = DeviceId::Kind::cuda, .index = device};
}

void GpuCase::reset() const {
    d_->upload(pristine_.data());
    // The copy of pageable memory may still be under way, and streams of their own do not wait for it.
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", problem_.d.device.index);
}

void GpuCase::take_data(const GpuCase& other) {
    inputs_ = other.inputs_;
    expected_ = other.expected_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) memory_[i]->upload(inputs_[i].data());
    reset();
}

std::string GpuCase::difference() const {
    std::string text;
    try {
        cuda::runtime().device(problem_.d.device.index).check_report();
    } catch (const Error& report) {
        text += std::string(report.what()) + "\n";
    }
    const std::vector<std::byte> given = output();
    const auto [ours, theirs] = std::mismatch(given.begin(), given.end(), expected_.begin());
    if (ours != given.end()) {
        const auto differ = std::inner_product(given.begin(), given.end(), expected_.begin(), std::int64_t{0},
                                               std::plus<>(), [](std::byte x, std::byte y) { return x != y ? 1 : 0; });
        text += fmt::format("{} of {} bytes of D differ, the first at {}: {:#x} for {:#x}\n", differ, given.size(),
                            ours - given.begin(), std::to_integer<int>(*ours), std::to_integer<int>(*theirs));
    }
    if (!d_->bands_are_whole()) text += "D: written outside\n";
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (memory_[i]->download() != inputs_[i]) text += fmt::format("input {} was changed\n", i);
        if (!memory_[i]->bands_are_whole()) text += fmt::format("input {}: written outside\n", i);
    }
    return text.empty() ? text : check::describe(case_.spec()) + ": " + text;
}

std::string run_and_compare(const check::CaseSpec& spec) {
    const GpuCase gpu(spec);
    run(gpu.problem());
    driver().require(driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    return gpu.difference();
}

}  // namespace tilewright::test
