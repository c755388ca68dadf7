#include "base/threads.h"

#include <tilewright/error.h>

#include <omp.h>
#include <unistd.h>

#include <algorithm>

namespace tilewright {
namespace {

/// The process that first had a region of several threads; 0: none yet. A forked child inherits the number.
std::atomic<pid_t> process_with_threads = 0;

}  // namespace

int region_threads(int wanted, std::int64_t items) {
    const std::int64_t available = wanted > 0 ? wanted : omp_get_max_threads();
    const auto threads = static_cast<int>(std::clamp<std::int64_t>(items, 1, available));
    if (threads == 1) return 1;
    pid_t owner = 0;
    const pid_t self = getpid();
    if (!process_with_threads.compare_exchange_strong(owner, self) && owner != self) {
        throw Error(
            "this process was forked from one that had computed on several threads, which a fork does not copy: more "
            "than one thread would wait for them forever; pass threads=1, or start processes by spawn (Python: "
            "multiprocessing.set_start_method(\"spawn\"))");
    }
    return threads;
}

bool Cancellation::requested() {
    if (!callback_) return false;
    if (requested_.load(std::memory_order_relaxed)) return true;
    if (std::this_thread::get_id() != caller_) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now - asked_ < interval) return false;
    asked_ = now;
    try {
        if (!callback_()) return false;
    } catch (...) {
        thrown_ = std::current_exception();
    }
    requested_.store(true, std::memory_order_relaxed);
    return true;
}

void Cancellation::check() const {
    if (thrown_) std::rethrow_exception(thrown_);
    if (requested_.load(std::memory_order_relaxed)) throw Cancelled();
}

}  // namespace tilewright
