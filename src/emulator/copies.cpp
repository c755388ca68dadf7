// cp.async: copies of 4 bytes that each thread starts for itself, and the arrivals that wait for them.
#include "emulator/machine.h"
#include "emulator/race.h"

#include <cstring>

namespace tilewright::emulator {
namespace {

/// What a copy writes may change from its start to its end.
constexpr u32 undefined = 0xFFFF'FFFF;

/// Makes the thread's copies before the `end`-th.
void finish_copies(Thread& thread, u64 end, u32 barrier) {
    u8* const shared = thread.block->shared;
    for (; thread.copied < end; ++thread.copied) {
        const Copy copy = thread.copies.front();
        thread.copies.pop_front();
        std::memcpy(shared + copy.to, copy.from, sizeof(float));
        race::engine_writes(shared + copy.to, sizeof(float), shared + barrier);
    }
}

}  // namespace
}  // namespace tilewright::emulator

namespace tilewright::hopper {

using namespace emulator;

void copy_async(float& to, const float* from) {
    Thread& thread = me();
    const u32 offset = shared_offset(*thread.block, &to, sizeof to);
    std::memcpy(&to, &undefined, sizeof to);
    hide_from_engines(offset, sizeof to);
    thread.copies.push_back({.to = offset, .from = from});
}

void barrier_arrive_after_copies(Barrier& barrier) {
    Thread& thread = me();
    const u32 offset = shared_offset(*thread.block, &barrier, sizeof barrier);
    add_arrival(thread, *thread.block, offset);
    thread.awaited = thread.copied + thread.copies.size();
    machine().run_or_delay([&thread, offset, end = thread.awaited] {
        finish_copies(thread, end, offset);
        deliver_arrival(thread, *thread.block, offset);
    });
}

}  // namespace tilewright::hopper
