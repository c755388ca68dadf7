#include "base/region.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

namespace tilewright {
namespace {

const pid_t loading_process = getpid();

/// PF_FORKNOEXEC of the kernel's flags in /proc/self/stat: forked, and no program was started since. The file reads
/// "pid (name) state parent group session terminal its-group flags ...", where the name may have parentheses.
bool kernel_says_forked() {
    constexpr unsigned long forked_without_exec = 0x40;
    constexpr int words_before = 6;
    std::FILE* const file = std::fopen("/proc/self/stat", "re");
    if (file == nullptr) return false;
    std::array<char, 512> text{};
    const std::size_t bytes = std::fread(text.data(), 1, text.size() - 1, file);
    std::fclose(file);
    std::string_view rest(text.data(), bytes);
    rest.remove_prefix(std::min(rest.rfind(')'), rest.size()));
    for (int i = 0; i <= words_before; ++i) rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
    return (std::strtoul(rest.data(), nullptr, 10) & forked_without_exec) != 0;
}

/// A thread that runs one job at a time and keeps its pool.
class Worker {
public:
    Worker() : process_(getpid()), thread_([this] { work(); }) {}

    pid_t process() const { return process_; }

    /// False where it has a job already.
    bool take(const std::function<void()>& job) {
        const std::lock_guard lock(mutex_);
        if (job_ != nullptr || ends_) return false;
        job_ = &job;
        done_ = false;
        changed_.notify_all();
        return true;
    }

    /// Waits for the job to end, at most so long; whether it has.
    bool ended_within(std::chrono::milliseconds most) {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, most, [this] { return done_; })) return false;
        job_ = nullptr;
        return true;
    }

    /// Ends the thread, and with it its pool, unless it has a job.
    void end() {
        {
            const std::lock_guard lock(mutex_);
            if (job_ != nullptr || ends_) return;
            ends_ = true;
            changed_.notify_all();
        }
        thread_.join();
    }

private:
    void work() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return ends_ || (job_ != nullptr && !done_); });
            if (ends_) return;
            lock.unlock();
            (*job_)();
            lock.lock();
            done_ = true;
            changed_.notify_all();
        }
    }

    pid_t process_;
    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()>* job_ = nullptr;
    bool done_ = false;
    bool ends_ = false;
    std::thread thread_;  // last: it uses the others
};

/// The worker of the newest process. A worker that a fork left of the parent's is neither used nor touched, and no
/// worker is destroyed.
std::atomic<Worker*> shared_worker{nullptr};

/// Threads of the parent may have had the memory that is the stacks of the worker and its pool now. Who joins such a
/// thread at the end of the process, as torch does, would wait for ours.
void end_worker() {
    Worker* const worker = shared_worker.load();
    if (worker != nullptr && worker->process() == getpid()) worker->end();
}

Worker& worker_of_this_process() {
    Worker* known = shared_worker.load();
    if (known != nullptr && known->process() == getpid()) return *known;
    auto made = std::make_unique<Worker>();
    if (!shared_worker.compare_exchange_strong(known, made.get())) {  // another thread was faster
        made->end();
        return *known;
    }
    std::atexit(end_worker);
    return *made.release();
}

}  // namespace

bool may_have_lost_threads() {
    static std::atomic<pid_t> asked{0};
    static std::atomic<bool> answer{false};
    const pid_t self = getpid();
    if (asked.load(std::memory_order_acquire) != self) {
        answer.store(self != loading_process || kernel_says_forked(), std::memory_order_relaxed);
        asked.store(self, std::memory_order_release);
    }
    return answer.load(std::memory_order_relaxed);
}

void open_region_apart(Cancellation& cancellation, const std::function<void()>& region) {
    Worker& worker = worker_of_this_process();
    if (worker.take(region)) {
        while (!worker.ended_within(Cancellation::interval)) cancellation.requested();
        return;
    }
    std::thread(region).join();  // calls of several threads at once; the caller is not asked
}

}  // namespace tilewright
