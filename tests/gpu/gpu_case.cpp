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
#include "plan/choose.h"
#include "problem/expansion.h"
#include "problem/packed_problem.h"

namespace tilewright::test {
namespace {

const cuda::Driver& driver() { return cuda::driver(); }

/// How many bytes differ, and the first of them; empty if none does.
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

GpuCase::GpuCase(const check::CaseSpec& spec, const std::optional<std::vector<std::int64_t>>& k_splits, int device,
                 bool packs)
    : case_(spec), on_gpu_(case_, 0, device, packs) {
    const std::vector<std::int64_t> used =
        k_splits ? *k_splits : planner::planned_k_splits(case_.problem(), default_device());
    // Cases that run in parallel take a core each.
    cpu::run_exact(case_.geometry(), {.threads = omp_in_parallel() != 0 ? 1 : 0, .k_splits = used});
    expected_ = case_.output();
}

void GpuCase::take_data(const GpuCase& other) {
    on_gpu_.take_data(other.on_gpu_);
    expected_ = other.expected_;
}

std::string GpuCase::difference() const {
    std::string text;
    try {
        cuda::runtime().device(problem().d.device.index).check_report();
    } catch (const Error& report) {
        text += std::string(report.what()) + "\n";
    }
    const std::string damage = on_gpu_.damage(), wrong = difference_of(output(), expected_);
    if (!damage.empty()) text += damage + "\n";
    if (!wrong.empty()) text += "D: " + wrong + "\n";
    return text.empty() ? text : check::describe(case_.spec()) + ": " + text;
}

std::string run_and_compare(const check::CaseSpec& spec, bool packs) {
    const GpuCase gpu(spec, {}, 0, packs);
    run(gpu.problem(), {.workspace = gpu.workspace()});
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

std::string run_expanded_and_compare(const check::CaseSpec& spec) {
    const Problem shapes = problem_of({.grouping = spec.grouping,
                                       .recipe = spec.recipe,
                                       .m = spec.m,
                                       .n = spec.n,
                                       .k = spec.k,
                                       .groups = spec.groups});
    const bool expands = expands_weights(geometry(with_packed_shape(shapes, 0)));
    return expands ? run_and_compare(spec) : "the weights are not expanded";
}

std::string run_on_few_sms(const check::CaseSpec& spec) {
    const GpuCase gpu(spec);
    for (const int sms : {1, 2, 77, 131}) {
        gpu.reset();
        Problem problem = gpu.problem();
        problem.sm_limit = sms;
        run(problem, {.workspace = gpu.workspace()});
        driver().require(driver().call.context_synchronize(), "cuCtxSynchronize", 0);
        const std::string difference = gpu.difference();
        if (!difference.empty()) return fmt::format("{} SMs: {}", sms, difference);
    }
    return "";
}

}  // namespace tilewright::test
