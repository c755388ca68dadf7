// cp.async: copies of 4 bytes that each thread starts for itself, and the arrivals that wait for them. cp.async.bulk:
// runs of bytes.
#include "emulator/machine.h"
#include "emulator/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tilewright::emulator {
namespace {

/// The destination of a copy may change from its start to its end.
constexpr u32 undefined = 0xFFFF'FFFF;

/// Makes the thread's copies that precede the `end`-th one.
void finish_copies(Thread& thread, u64 end, u32 barrier) {
    u8* const shared = thread.block->shared;
    if (end <= thread.copied) return;
    const auto first = thread.copies.begin(), last = first + static_cast<std::ptrdiff_t>(end - thread.copied);
    std::for_each(first, last, [&](const Copy& copy) {
        std::memcpy(shared + copy.to, copy.from, sizeof(float));
        race::engine_writes(shared + copy.to, sizeof(float), shared + barrier);
    });
    thread.copies.erase(first, last);
    thread.copied = end;
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

void bulk_load(void* to, const void* from, int bytes, Barrier& barrier) {
    const Thread& issuer = me();
    Block& block = *issuer.block;
    const u32 offset = shared_offset(block, to, static_cast<u32>(bytes));
    const u32 signal = shared_offset(block, &barrier, sizeof barrier);
    if (bytes <= 0 || bytes % 16 != 0 || offset % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
        fail(fmt::format("bulk_load: {} bytes from {} to offset {}; all are multiples of 16", bytes, from, offset));
    }
    static_cast<void>(barrier_state(issuer, block, signal));
    std::memset(block.shared + offset, 0xFF,
                static_cast<std::size_t>(bytes));  // from here on it may change at any time
    if (machine().loses_load()) return;
    machine().run_or_delay([=, &issuer, &block] {
        std::memcpy(block.shared + offset, from, static_cast<std::size_t>(bytes));
        race::engine_writes(block.shared + offset, static_cast<std::size_t>(bytes), block.shared + signal);
        deliver(issuer, block, signal, bytes);
    });
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
