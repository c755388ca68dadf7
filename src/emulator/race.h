// Information for ThreadSanitizer: the fibers that synchronise through an address, and the memory that primitives read
// and write. The emulator itself is not instrumented, because its own bookkeeping would be reported as races. In the
// variant for ThreadSanitizer, TILEWRIGHT_EMULATOR_RACES is defined and kernels are instrumented. Otherwise all
// functions are empty.
#pragma once

#include <cstddef>

#ifdef TILEWRIGHT_EMULATOR_RACES

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the runtime's names
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace tilewright::emulator::race {

inline void* address_of(const void* pointer) { return const_cast<void*>(pointer); }
inline void acquire(const void* address) { __tsan_acquire(address_of(address)); }
inline void release(const void* address) { __tsan_release(address_of(address)); }
inline void reads(const void* address, std::size_t bytes) { __tsan_read_range(address_of(address), bytes); }
inline void writes(const void* address, std::size_t bytes) { __tsan_write_range(address_of(address), bytes); }

/// A copy engine writes as a separate thread. Its writes follow the thread that started it and precede the completion
/// of `barrier`.
inline void engine_writes(const void* address, std::size_t bytes, const void* barrier) {
    static void* const engine = __tsan_create_fiber(0);
    static const char started = 0;
    void* const caller = __tsan_get_current_fiber();
    release(&started);
    __tsan_switch_to_fiber(engine, 1);  // 1: switching orders nothing
    acquire(&started);
    writes(address, bytes);
    release(barrier);
    __tsan_switch_to_fiber(caller, 1);
}

}  // namespace tilewright::emulator::race

#else

namespace tilewright::emulator::race {

inline void acquire(const void* /*address*/) {}
inline void release(const void* /*address*/) {}
inline void reads(const void* /*address*/, std::size_t /*bytes*/) {}
inline void writes(const void* /*address*/, std::size_t /*bytes*/) {}
inline void engine_writes(const void* /*address*/, std::size_t /*bytes*/, const void* /*barrier*/) {}

}  // namespace tilewright::emulator::race

#endif
