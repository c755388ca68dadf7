// Runs kernels on the host, against the primitives of hopper/ptx/ptx.h. A kernel is compiled as host C++ by including
// its header and then emulator/primitives.h, and runs inside `launch`, where each of its threads is a fiber.
//
// Asynchronous work is adversarial. TMA copies and wgmma run as early as the hardware could run them or as late, and
// with a seed the threads take turns in a shuffled order. What the hardware leaves undefined (shared memory at the
// start, the destination of a copy under way, accumulators before the wait) is NaN. Misuse and deadlocks are errors
// that say who, where and what is missing.
#pragma once

#include "hopper/arguments.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace tilewright::emulator {

/// When work that a thread has only started is done: at once, or when nothing else can go on any more.
enum class Timing : std::uint8_t { early, late };

/// Who used an mbarrier.
struct BarrierUse {
    std::string name{};  // of its waits; empty where none waits
    std::set<int> waiting_warps{};
    std::set<int> arriving_warps{};
};

/// What a launch did.
struct Counts {
    std::int64_t products = 0;  // wgmmas of a warpgroup each
    /// Rows that TMA loads were asked for outside of the tensor with this base. Each takes the hardware longer than a
    /// row inside.
    std::map<const void*, std::int64_t> outside_rows{};
    std::set<const void*> prefetched{};              // addresses of prefetch_global
    std::map<std::uint32_t, BarrierUse> barriers{};  // by offset in shared memory
};

struct Launch {
    int blocks = 1;        // of the grid
    int cluster = 1;       // blocks that run together; clusters run one after another
    int threads = 128;     // of a block; whole warps
    int shared_bytes = 0;  // of a block
    Timing tma = Timing::early;
    Timing wgmma = Timing::early;
    /// 0: threads and clusters in ascending order. Otherwise shuffled, and threads lose their turn now and then.
    std::uint64_t seed = 0;
    /// For each thread, before setmaxnreg; 0: what a launch of so many threads can have.
    int registers = 0;
    /// What a warp does, for messages.
    std::function<const char*(int warp)> role{};
    /// If not null, what the launch did is added to it.
    Counts* counts = nullptr;
    /// The TMA load of this number, in the order of issue, never arrives. Where nothing can go on then, waits that have
    /// a limit time out as on a GPU; what the kernel leaves behind is not checked.
    int lost_load = -1;
};

/// A kernel did what no kernel may do.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Runs `kernel` as every thread of the grid. Throws Error.
void launch(const Launch& launch, const std::function<void()>& kernel);

/// The tensor map that the primitives take. Throws Error for what the hardware would refuse.
hopper::TensorMap encode(const hopper::TensorMapDescription& description);

}  // namespace tilewright::emulator
