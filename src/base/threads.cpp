#include "base/threads.h"

#include <tilewright/error.h>

#include <omp.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tilewright {

void require_threads(int wanted) {
    if (wanted >= 0) return;
    const std::vector<Finding> findings{
        {"threads", std::to_string(wanted), "0 or more", "0 leaves the number to OpenMP."}};
    throw Error(findings);
}

int region_threads(int wanted, std::int64_t items) {
    require_threads(wanted);
    const std::int64_t available = wanted > 0 ? wanted : omp_get_max_threads();
    return static_cast<int>(std::clamp<std::int64_t>(items, 1, available));
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
