// How many threads a CPU call gets, how its caller ends it early, and how an exception leaves its threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>

namespace tilewright {

/// Throws Error for a negative number.
void require_threads(int wanted);

/// Threads for a parallel region: `wanted` (0: OpenMP's own choice), but no more than there are work items, and at
/// least 1. Throws as `require_threads`. A region of one thread must not be opened as a parallel one (`if (threads >
/// 1)`). `open_region` opens it.
int region_threads(int wanted, std::int64_t items);

/// One call that its caller may end early. The thread that made this object calls the callback, first after `interval`
/// and then about every `interval`. `check` rethrows what the callback throws.
class Cancellation {
public:
    static constexpr std::chrono::milliseconds interval{50};

    explicit Cancellation(const std::function<bool()>& callback) : callback_(callback) {}

    /// For every thread of a region, before each work item: whether the rest should be left undone.
    bool requested();

    /// After the region, by the thread that made this: throws Cancelled, or what the callback threw.
    void check() const;

private:
    const std::function<bool()>& callback_;
    const std::thread::id caller_ = std::this_thread::get_id();
    std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
    std::atomic<bool> requested_ = false;
    std::exception_ptr thrown_;
};

/// The first exception of a parallel region, which an exception must not leave: that would end the process.
class FirstError {
public:
    /// For every thread, each work item. After an error nothing more is done.
    template <class Work>
    void keep(const Work& work) noexcept {
        if (found_.load(std::memory_order_relaxed)) return;
        try {
            work();
        } catch (...) {
            if (!found_.exchange(true)) error_ = std::current_exception();
        }
    }

    /// After the region.
    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    std::atomic<bool> found_ = false;
    std::exception_ptr error_;
};

}  // namespace tilewright
