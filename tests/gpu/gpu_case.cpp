#include "gpu/gpu_case.h"

#include <fmt/format.h>
#include <omp.h>
#include <tilewright/error.h>
#include <tilewright/run.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>

#include "cpu/exact/exact.h"
#include "cuda/runtime.h"
#include "plan/k_splits.h"

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

std::span<const std::byte> memory_of(const Tensor& tensor) {
    return {static_cast<const std::byte*>(tensor.data), tensor.given() ? bytes_of(tensor) : 0};
}

/// How many bytes of a part differ, and the first of them; empty if none does.
std::string difference_of(std::span<const std::byte> given, std::span<const std::byte> expected) {
    const auto [ours, theirs] = std::mismatch(given.begin(), given.end(), expected.begin());
    if (ours == given.end()) return "";
    const auto differ = std::inner_product(given.begin(), given.end(), expected.begin(), std::int64_t{0}, std::plus<>(),
                                           [](std::byte x, std::byte y) { return x != y ? 1 : 0; });
    return fmt::format("{} of {} bytes differ, the first at {}: {:#x} for {:#x}", differ, given.size(),
                       ours - given.begin(), std::to_integer<int>(*ours), std::to_integer<int>(*theirs));
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

DeviceMemory::DeviceMemory(std::size_t bytes) {
    driver().require(driver().call.allocate(&address_, bytes), "cuMemAlloc", 0);
}

DeviceMemory::~DeviceMemory() { driver().call.release(address_); }

void DeviceMemory::upload(std::span<const std::byte> bytes, std::size_t offset) const {
    if (bytes.empty()) return;
    driver().require(driver().call.copy_to_device(address_ + offset, bytes.data(), bytes.size()), "cuMemcpyHtoD", 0);
}

std::vector<std::byte> DeviceMemory::download(std::size_t offset, std::size_t bytes) const {
    std::vector<std::byte> copy(bytes);
    if (bytes == 0) return copy;
    driver().require(driver().call.copy_to_host(copy.data(), address_ + offset, bytes), "cuMemcpyDtoH", 0);
    return copy;
}

GpuCase::GpuCase(const check::CaseSpec& spec, const std::optional<std::vector<std::int64_t>>& cuts, int device)
    : case_(spec), problem_(case_.problem()) {
    pristine_.assign(check::guard_band, check::poison);
    place("a.values", memory_of(problem_.a.values));
    place("a.scales", memory_of(problem_.a.scales));
    place("b.values", memory_of(problem_.b.values));
    place("b.scales", memory_of(problem_.b.scales));
    place("groups.sizes", memory_of(problem_.groups.sizes));
    if (problem_.c.data != problem_.d.data) place("c", memory_of(problem_.c));
    case_.reset_output();
    place("D", case_.output());
    d_ = places_.back();
    // Cases that run side by side take a core each.
    const std::vector<std::int64_t> used = cuts ? *cuts : planner::planned_k_splits(case_.problem(), default_device());
    cpu::run_exact(case_.geometry(), {.threads = omp_in_parallel() != 0 ? 1 : 0, .k_splits = used});
    expected_ = pristine_;
    std::ranges::copy(case_.output(), expected_.begin() + static_cast<std::ptrdiff_t>(d_.begin));
    memory_ = std::make_unique<DeviceMemory>(pristine_.size());
    memory_->upload(pristine_, 0);
    set_pointers(device);
    reset();
}

void GpuCase::place(std::string name, std::span<const std::byte> bytes) {
    constexpr std::size_t alignment = 256;  // as cuMemAlloc's
    places_.push_back({.name = std::move(name), .begin = pristine_.size(), .bytes = bytes.size()});
    pristine_.insert(pristine_.end(), bytes.begin(), bytes.end());
    const std::size_t end = (pristine_.size() + check::guard_band + alignment - 1) / alignment * alignment;
    pristine_.resize(end, check::poison);
}

void GpuCase::set_pointers(int device) {
    const bool in_place = problem_.c.data == problem_.d.data;
    const auto move = [&](Tensor& tensor, const char* name) {
        const auto found = std::ranges::find(places_, name, &Place::name);
        if (found == places_.end() || !tensor.given()) return;
        tensor.data = memory_->at(found->begin);
        tensor.device = {.kind = DeviceId::Kind::cuda, .index = device};
    };
    move(problem_.a.values, "a.values");
    move(problem_.a.scales, "a.scales");
    move(problem_.b.values, "b.values");
    move(problem_.b.scales, "b.scales");
    move(problem_.groups.sizes, "groups.sizes");
    move(problem_.d, "D");
    move(problem_.c, in_place ? "D" : "c");
}

void GpuCase::reset() const {
    memory_->upload(std::span(pristine_).subspan(d_.begin, d_.bytes), d_.begin);
    // The copy of pageable memory may still be under way, and streams of their own do not wait for it.
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", problem_.d.device.index);
}

void GpuCase::poison_output(cuda::StreamHandle stream) const {
    const auto address = reinterpret_cast<cuda::DeviceAddress>(memory_->at(d_.begin));
    driver().require(
        driver().call.fill_bytes_in_order(address, std::to_integer<unsigned char>(check::poison), d_.bytes, stream),
        "cuMemsetD8Async", 0);
}

bool GpuCase::output_is_right() const {
    const std::vector<std::byte> given = output();
    return std::equal(given.begin(), given.end(), expected_.begin() + static_cast<std::ptrdiff_t>(d_.begin));
}

void GpuCase::take_data(const GpuCase& other) {
    pristine_ = other.pristine_;
    expected_ = other.expected_;
    memory_->upload(pristine_, 0);
    reset();
}

std::string GpuCase::difference() const {
    std::string text;
    try {
        cuda::runtime().device(problem_.d.device.index).check_report();
    } catch (const Error& report) {
        text += std::string(report.what()) + "\n";
    }
    const std::vector<std::byte> given = memory_->download(0, expected_.size());
    if (given != expected_) text += difference(given);
    return text.empty() ? text : check::describe(case_.spec()) + ": " + text;
}

std::string GpuCase::difference(const std::vector<std::byte>& given) const {
    std::string text;
    const auto add = [&](const std::string& name, std::size_t begin, std::size_t end) {
        const std::string part = difference_of(std::span(given).subspan(begin, end - begin),
                                               std::span(expected_).subspan(begin, end - begin));
        if (!part.empty()) text += fmt::format("{}: {}\n", name, part);
    };
    add("before " + places_.front().name, 0, places_.front().begin);
    for (std::size_t i = 0; i < places_.size(); ++i) {
        const Place& place = places_[i];
        const std::size_t next = i + 1 < places_.size() ? places_[i + 1].begin : given.size();
        add(place.name, place.begin, place.begin + place.bytes);
        add("behind " + place.name, place.begin + place.bytes, next);
    }
    return text;
}

std::string run_and_compare(const check::CaseSpec& spec) {
    const GpuCase gpu(spec);
    run(gpu.problem());
    driver().require(driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    return gpu.difference();
}

std::string run_and_compare(const std::vector<check::CaseSpec>& specs) {
    std::string first;
    std::atomic<bool> failed = false;
#pragma omp parallel
    {
        const CurrentDevice device;
#pragma omp for schedule(dynamic)
        for (std::size_t i = 0; i < specs.size(); ++i) {
            if (failed) continue;
            std::string difference;
            try {
                difference = run_and_compare(specs[i]);
            } catch (const std::exception& error) {
                difference = check::describe(specs[i]) + ": " + error.what();
            }
            if (!difference.empty() && !failed.exchange(true)) first = difference;
        }
    }
    return first;
}

}  // namespace tilewright::test
