// The call cache: the last calls of a thread, ready to launch again. A model makes the same calls again and again,
// layer by layer and token by token. A call that equals one of them is launched without validation and without a plan.
// It then costs the host little more than the driver's launch. A call that differs only in addresses is validated only
// for these, and keeps the tile that was chosen for its kind.
#pragma once

#include <tilewright/run.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "cuda/device.h"
#include "plan/variant.h"

namespace tilewright::cuda {

/// A call with everything that its launch needs.
struct KnownCall {
    Problem problem;
    // As much as is needed; empty if the launches contain no address of it.
    Workspace workspace;
    Device* device = nullptr;
    ReadyLaunch ready;
};

/// The tile that the planner chose for calls that differ only in addresses and alpha, and the variants of it that were
/// needed.
class KnownKind {
public:
    KnownKind() = default;
    KnownKind(const Problem& of, Device& on, const planner::TileChoice& chosen)
        : problem(of), device(&on), tiles(chosen) {}

    /// Loaded when first needed.
    KernelHandle kernel(const hopper::Kernel& variant);

    Problem problem{};
    Device* device = nullptr;
    planner::TileChoice tiles{};

private:
    struct LoadedKernel {
        hopper::Kernel tile;
        KernelHandle kernel = nullptr;
    };
    // Addresses also decide between kernels for weights read in place and for packed weights.
    std::array<LoadedKernel, 10> kernels_{};
};

/// A few entries; a new one replaces the oldest.
template <class Entry, int capacity>
class Recent {
public:
    template <class Predicate>
    Entry* find(const Predicate& wanted) {
        for (int i = 0; i < size_; ++i) {
            if (wanted(entries_[i])) return &entries_[i];
        }
        return nullptr;
    }
    Entry& add(const Entry& entry) {
        Entry& place = entries_[next_];
        place = entry;
        next_ = (next_ + 1) % capacity;
        size_ = std::min(size_ + 1, capacity);
        return place;
    }
    void clear() { size_ = next_ = 0; }

private:
    std::array<Entry, capacity> entries_{};
    int size_ = 0;
    int next_ = 0;
};

/// Each thread has one. It takes no lock, and finds an entry without allocation.
class CallCache {
public:
    /// The call that equals this one, except for an alpha other than 1; null if there is none.
    KnownCall* find(const Problem& problem, const Workspace& workspace);
    /// The kind of this call, or null.
    KnownKind* find_kind(const Problem& problem);

    KnownCall& add(const KnownCall& call) { return calls_.add(call); }
    KnownKind& add(const KnownKind& kind) { return kinds_.add(kind); }

    /// Forgets the calls of another runtime. Runtimes have numbers that are never used again, because the caches of
    /// threads outlive them.
    void belong_to(std::uint64_t runtime);

private:
    std::uint64_t owner_ = 0;
    Recent<KnownCall, 8> calls_;
    Recent<KnownKind, 32> kinds_;
};

}  // namespace tilewright::cuda
