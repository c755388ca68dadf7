// Runs kernels on the host, with the primitives of hopper/ptx/ptx.h. A kernel is compiled as host C++ by including its
// header and then emulator/primitives.h. It runs inside `launch`, where each of its threads is a fiber.
//
// Asynchronous work is adversarial. TMA copies and wgmma run as early as the hardware could run them, or as late. With
// a seed, the threads take turns in a shuffled order. Data that the hardware leaves undefined are NaN: shared memory at
// the start, the destination of a copy in flight, accumulators ahead of the wait. Misuse and deadlocks are errors that
// name the thread, the place and the missing event.
#pragma once

#include "hopper/arguments.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace tilewright::emulator {

/// The time at which work that a thread has only started is done: at once, or when no thread can continue without it.
enum class Timing : std::uint8_t { early, late };

/// The uses of an mbarrier.
struct BarrierUse {
    std::string name{};  // The name in its waits; empty if no thread waits.
    std::set<int> waiting_warps{};
    std::set<int> arriving_warps{};
};

/// The work of a launch.
struct Counts {
    std::int64_t products = 0;  // wgmmas, counted once per warpgroup
    /// Rows that TMA loads requested outside of the tensor with this base. Each takes the hardware longer than a row
    /// inside.
    std::map<const void*, std::int64_t> outside_rows{};
    std::set<const void*> prefetched{};              // addresses of prefetch_global
    std::map<std::uint32_t, BarrierUse> barriers{};  // by offset in shared memory
};

struct Launch {
    int blocks = 1;        // Blocks of the grid.
    int cluster = 1;       // Blocks that run together; clusters run one after another.
    int threads = 128;     // Threads of a block, in whole warps.
    int shared_bytes = 0;  // Shared memory of a block.
    Timing tma = Timing::early;
    Timing wgmma = Timing::early;
    /// 0: threads and clusters run in ascending order. Otherwise the order is shuffled, and threads lose their turn now
    /// and then.
    std::uint64_t seed = 0;
    /// Registers per thread when setmaxnreg has not been called; 0: as many as a launch with this number of threads can
    /// have.
    int registers = 0;
    /// The role of a warp, for messages.
    std::function<const char*(int warp)> role{};
    /// If not null, the launch's work is added to it.
    Counts* counts = nullptr;
    /// The TMA load of this number, in the order of issue, never arrives. If no thread can then continue, waits that
    /// have a limit time out as on a GPU. The state that the kernel leaves is not checked.
    int lost_load = -1;
    /// Kernels ahead of this one in the stream. It is called with false when a cluster begins, and with true when no
    /// thread can continue before they have ended. Null: they have ended.
    std::function<void(bool ended)> earlier{};
};

/// A kernel did something that no kernel may do.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Runs `kernel` as every thread of the grid. Throws Error.
void launch(const Launch& launch, const std::function<void()>& kernel);

/// The tensor map that the primitives take. Throws Error for descriptions that the hardware would refuse.
hopper::TensorMap encode(const hopper::TensorMapDescription& description);

}  // namespace tilewright::emulator
