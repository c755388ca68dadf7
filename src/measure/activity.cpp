#include "measure/activity.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tilewright::measure {
namespace {

// From CUPTI's headers cupti_activity.h and cupti_result.h, 12.0 to 13.0.
constexpr int cupti_success = 0;
constexpr std::uint32_t kind_memset = 2;
constexpr std::uint32_t kind_concurrent_kernel = 10;
constexpr std::uint32_t flush_forced = 1;
constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::size_t buffer_alignment = 8;

/// The beginning of CUpti_ActivityKernel4 to 10 and of CUpti_ActivityMemset to 4, which is the same in all of them.
struct RecordPrefix {
    std::uint32_t kind;
    std::uint32_t unused[3];
    std::uint64_t start;
    std::uint64_t end;
};
static_assert(offsetof(RecordPrefix, start) == 16 && sizeof(RecordPrefix) == 32);

// CUPTI's callbacks carry no argument of ours.
ActivityRecorder* recorder = nullptr;

}  // namespace

std::vector<Activity> read_records(std::uint8_t* buffer, std::size_t bytes, NextRecord* next) {
    std::vector<Activity> found;
    void* record = nullptr;
    while (next(buffer, bytes, &record) == cupti_success) {
        RecordPrefix prefix{};
        std::memcpy(&prefix, record, sizeof(prefix));
        if (prefix.kind != kind_concurrent_kernel && prefix.kind != kind_memset) continue;
        found.push_back({.start = prefix.start, .end = prefix.end});
    }
    return found;
}

ActivityRecorder& ActivityRecorder::instance() {
    static ActivityRecorder only;
    return only;
}

ActivityRecorder::ActivityRecorder() : library_(cuda::library_candidates("libcupti")) {
    if (!library_.is_open()) {
        throw Error(
            "CUPTI (libcupti.so), which times kernels, was not found; pip install nvidia-cuda-cupti, or install the "
            "CUDA "
            "toolkit");
    }
    using Wanted = void(std::uint8_t**, std::size_t*, std::size_t*);
    using Full = void(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);
    auto* subscribe = library_.function<int(Wanted*, Full*)>("cuptiActivityRegisterCallbacks");
    auto* enable = library_.function<int(std::uint32_t)>("cuptiActivityEnable");
    flush_ = library_.function<int(std::uint32_t)>("cuptiActivityFlushAll");
    next_ = library_.function<NextRecord>("cuptiActivityGetNextRecord");
    if (subscribe == nullptr || enable == nullptr || flush_ == nullptr || next_ == nullptr) {
        throw Error(library_.path() + " is not CUPTI 12 or later; pip install nvidia-cuda-cupti");
    }
    recorder = this;
    require(subscribe(buffer_wanted, buffer_full), "cuptiActivityRegisterCallbacks");
    require(enable(kind_concurrent_kernel), "cuptiActivityEnable");
    require(enable(kind_memset), "cuptiActivityEnable");
}

void ActivityRecorder::require(int result, const char* call) const {
    if (result == cupti_success) return;
    auto* words = library_.function<int(int, const char**)>("cuptiGetResultString");
    const char* text = nullptr;
    if (words == nullptr || words(result, &text) != cupti_success || text == nullptr) text = "error";
    throw Error(
        fmt::format("{} failed: {} ({}); stop other profilers of this process, and check that the driver allows users "
                    "to profile (NVIDIA: ERR_NVGPUCTRPERM)",
                    call, text, result));
}

void ActivityRecorder::buffer_wanted(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
    *bytes = *buffer == nullptr ? 0 : buffer_bytes;
    *most_records = 0;  // as many as fit
}

void ActivityRecorder::buffer_full(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t used) {
    const std::vector<Activity> found = read_records(buffer, used, recorder->next_);
    std::free(buffer);
    const std::lock_guard lock(recorder->mutex_);
    recorder->finished_.insert(recorder->finished_.end(), found.begin(), found.end());
}

std::vector<Activity> ActivityRecorder::take_all() {
    require(flush_(flush_forced), "cuptiActivityFlushAll");
    std::vector<Activity> found;
    {
        const std::lock_guard lock(mutex_);
        found = std::exchange(finished_, {});
    }
    std::sort(found.begin(), found.end(), [](const Activity& x, const Activity& y) { return x.start < y.start; });
    return found;
}

}  // namespace tilewright::measure
