// When kernels ran on the GPU, from CUPTI's activity records: the clock that profilers use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/library_search.h"

namespace tilewright::measure {

/// A kernel or a fill, in nanoseconds of the GPU's own timer.
struct Activity {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
};

/// The records in a buffer, in its order. `next` is cuptiActivityGetNextRecord.
using NextRecord = int(std::uint8_t*, std::size_t, void**);
std::vector<Activity> read_records(std::uint8_t* buffer, std::size_t bytes, NextRecord* next);

/// CUPTI records a whole process: there is one recorder.
class ActivityRecorder {
public:
    /// Throws Error, which names the missing part, or the other profiler of this process.
    static ActivityRecorder& instance();

    /// The activities since the last call, by start. The GPU must be idle.
    std::vector<Activity> take_all();

private:
    ActivityRecorder();
    void require(int result, const char* call) const;
    static void buffer_wanted(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
    static void buffer_full(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                            std::size_t used);

    cuda::OpenLibrary library_;
    NextRecord* next_ = nullptr;
    int (*flush_)(std::uint32_t) = nullptr;
    std::mutex mutex_;  // CUPTI delivers buffers on another thread
    std::vector<Activity> finished_;
};

}  // namespace tilewright::measure
