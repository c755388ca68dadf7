// Ranks that are threads of this process. Their memory is this process's, or that of one GPU. So addresses are the
// pieces themselves, and collectives are copies between two barriers of the threads.
#include <tilewright/error.h>
#include <tilewright/ranks.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "cuda/memory.h"

namespace tilewright {
namespace {

constexpr std::chrono::seconds longest_wait{60};
constexpr std::align_val_t alignment{128};

struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
};

/// A rank's piece.
class OwnMemory {
public:
    OwnMemory(const DeviceId& device, std::int64_t bytes) {
        if (device.kind == DeviceId::Kind::cuda) {
            on_gpu_ = std::make_unique<cuda::DeviceMemory>(device.index, bytes);
            return;
        }
        const auto size = static_cast<std::size_t>(bytes);
        on_cpu_.reset(static_cast<std::byte*>(::operator new(size, alignment)));
        std::memset(on_cpu_.get(), 0, size);
    }
    std::byte* data() const { return on_gpu_ ? static_cast<std::byte*>(on_gpu_->data()) : on_cpu_.get(); }

private:
    std::unique_ptr<std::byte, Free> on_cpu_{};
    std::unique_ptr<cuda::DeviceMemory> on_gpu_{};
};

/// The state that the threads share.
class SharedState {
public:
    SharedState(int size, const DeviceId& device) : device(device), size(size) {
        memories.resize(static_cast<std::size_t>(size));
        told.resize(memories.size());
        if (device.kind != DeviceId::Kind::cuda) return;
        for (int i = 0; i < size; ++i) events.push_back(std::make_unique<cuda::Event>(device.index));
    }

    /// Waits until all threads are here.
    void meet(int rank) {
        std::unique_lock lock(mutex_);
        const std::uint64_t turn = turn_;
        if (++arrived_ == size) {
            arrived_ = 0;
            ++turn_;
            all_are_here_.notify_all();
            return;
        }
        if (all_are_here_.wait_for(lock, longest_wait, [&] { return turn_ != turn; })) return;
        --arrived_;
        throw Error("rank " + std::to_string(rank) + " of " + std::to_string(size) + " threads waited " +
                    std::to_string(longest_wait.count()) +
                    " s for another one; every rank makes the same calls in the same order");
    }

    /// The work of all threads up to here comes ahead of the work after it, in their streams too.
    void join(int rank, void* stream) {
        if (device.kind == DeviceId::Kind::cuda) events[static_cast<std::size_t>(rank)]->record(stream);
        meet(rank);
        for (const auto& event : events) event->hold(stream);
        if (!events.empty()) meet(rank);  // no thread records its event again before all wait for it
    }

    const DeviceId device;
    const int size;
    std::vector<std::shared_ptr<OwnMemory>> memories{};
    std::vector<const void*> told{};
    std::vector<std::unique_ptr<cuda::Event>> events{};

private:
    std::mutex mutex_{};
    std::condition_variable all_are_here_{};
    int arrived_ = 0;
    std::uint64_t turn_ = 0;
};

class RankOfThread : public Ranks {
public:
    RankOfThread(std::shared_ptr<SharedState> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}

    int rank() const override { return rank_; }
    int size() const override { return shared_->size; }
    DeviceId device() const override { return shared_->device; }
    std::string engine() const override { return "threads of this process"; }

    void share(const void* own, void* all, std::int64_t bytes) override {
        shared_->told[static_cast<std::size_t>(rank_)] = own;
        shared_->meet(rank_);
        for (int rank = 0; rank < size(); ++rank) {
            std::memcpy(static_cast<std::byte*>(all) + rank * bytes, shared_->told[static_cast<std::size_t>(rank)],
                        static_cast<std::size_t>(bytes));
        }
        shared_->meet(rank_);
    }

    void* allocate(std::int64_t bytes) override {
        own_ = std::make_shared<OwnMemory>(shared_->device, bytes);
        shared_->memories[static_cast<std::size_t>(rank_)] = own_;
        shared_->meet(rank_);
        memories_ = shared_->memories;  // as long as this rank lives, so that late readers find them
        shared_->meet(rank_);
        return own_->data();
    }

    std::vector<void*> addresses() override {
        std::vector<void*> all;
        for (const auto& memory : memories_) all.push_back(memory->data());
        return all;
    }

    void all_gather(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) override {
        exchange(stream, [&](int rank) { copy(to + rank * bytes, rank, from, bytes, stream); });
    }
    void all_to_all(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) override {
        exchange(stream, [&](int rank) { copy(to + rank * bytes, rank, from + rank_ * bytes, bytes, stream); });
    }

private:
    template <class Copy>
    void exchange(void* stream, Copy copy_from) {
        shared_->join(rank_, stream);
        for (int rank = 0; rank < size(); ++rank) copy_from(rank);
        shared_->join(rank_, stream);
    }

    void copy(std::int64_t to, int rank, std::int64_t from, std::int64_t bytes, void* stream) const {
        std::byte* const target = own_->data() + to;
        const std::byte* const source = memories_[static_cast<std::size_t>(rank)]->data() + from;
        if (shared_->device.kind == DeviceId::Kind::cuda) {
            cuda::copy(shared_->device.index, target, source, bytes, stream);
        } else {
            std::memcpy(target, source, static_cast<std::size_t>(bytes));
        }
    }

    std::shared_ptr<SharedState> shared_;
    int rank_;
    std::shared_ptr<OwnMemory> own_{};
    std::vector<std::shared_ptr<OwnMemory>> memories_{};
};

}  // namespace

std::vector<std::unique_ptr<Ranks>> ranks_of_threads(int size, const DeviceId& device) {
    if (size < 1) throw Error(std::vector<Finding>{{"size", std::to_string(size), "1 or more ranks", ""}});
    const auto shared = std::make_shared<SharedState>(size, device);
    std::vector<std::unique_ptr<Ranks>> ranks;
    ranks.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<RankOfThread>(shared, rank));
    return ranks;
}

}  // namespace tilewright
