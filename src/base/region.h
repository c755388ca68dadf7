// Opens parallel regions so that they end in forked children too.
//
// GCC's OpenMP keeps a pool of threads for each thread that opens regions. A fork copies the calling thread and its
// record of the pool, but not the pool: the thread's next region in the child waits forever. This happens whoever
// opened the earlier regions, torch for example. A thread that is new in the child has no pool yet and makes one. In
// such processes a thread of this library therefore opens regions.
#pragma once

#include "base/threads.h"

#include <functional>

namespace tilewright {

/// Whether earlier threads may be gone, because this process was forked and has started no program since.
bool may_have_lost_threads();

/// Calls `region` by a thread of ours and asks the caller meanwhile.
void open_region_apart(Cancellation& cancellation, const std::function<void()>& region);

/// Calls `region`, which opens a parallel region if `threads` is more than 1, must not throw, and asks `cancellation`,
/// which the calling thread made.
template <class Region>
void open_region(int threads, Cancellation& cancellation, const Region& region) {
    if (threads == 1 || !may_have_lost_threads()) return region();
    open_region_apart(cancellation, std::ref(region));
}

}  // namespace tilewright
