// The mbarriers of ptx.h for Hopper, in PTX, and code that keeps ptxas from moving code across waits.
#pragma once

#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

TILEWRIGHT_DEVICE u32 shared_address(const void* pointer) { return u32(__cvta_generic_to_shared(pointer)); }

TILEWRIGHT_DEVICE void barrier_init(Barrier& barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
TILEWRIGHT_DEVICE void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TILEWRIGHT_DEVICE void barrier_arrive(Barrier& barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
// Without .release.cluster, with which multicast loops ran at half their rate. The arrival only signals that this warp
// has read its stage, and no earlier write depends on that.
TILEWRIGHT_DEVICE void barrier_arrive_peer(Barrier& barrier, int rank) {
    asm volatile(
        "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(&barrier)),
        "r"(rank)
        : "memory");
}
TILEWRIGHT_DEVICE void barrier_arrive_expect(Barrier& barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
                 : "memory");
}
TILEWRIGHT_DEVICE bool barrier_test(Barrier& barrier, u32 parity) {
    u32 complete;
    asm volatile(
        "{\n.reg .pred complete;\nmbarrier.test_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n}"
        : "=r"(complete)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
    return complete != 0;
}
// The hardware suspends the thread for a while before it answers no.
TILEWRIGHT_DEVICE bool barrier_try(Barrier& barrier, u32 parity) {
    u32 complete;
    asm volatile(
        "{\n.reg .pred complete;\nmbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n}"
        : "=r"(complete)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
    return complete != 0;
}
// The code after the first try is as short as possible. Code that looks at a clock or writes a report in the middle of
// the main loop costs time even if it never runs (docs/hopper_lessons.md). An exit here makes ptxas serialise wgmma
// (C7518), and a call would spill live registers.
TILEWRIGHT_DEVICE void barrier_wait(Barrier& barrier, u32 parity, const Waiting& waiting) {
    if (barrier_try(barrier, parity)) return;
#pragma unroll 1
    while (!barrier_try(barrier, parity)) {
        if (!is_recorded(waiting.barrier)) {
            if (--waiting.budget < 0) return;
        } else {
            if (waiting.budget < 0) return;
            if (--waiting.budget < 0) waiting.budget = timed_out_at(waiting.barrier);
        }
    }
}
// Only the loop: ptxas moves it into the arithmetic that precedes it. It does not move a loop that has another exit
// (docs/hopper_lessons.md).
TILEWRIGHT_DEVICE void barrier_wait_watched(Barrier& barrier, u32 parity, BarrierName /*name*/, int /*stage*/) {
    while (!barrier_try(barrier, parity)) {
    }
}
TILEWRIGHT_DEVICE void barrier_reset(Barrier& barrier, int arrivals) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
    barrier_init(barrier, arrivals);
}

TILEWRIGHT_DEVICE void keep_order(int not_negative) {
    // Looks like a change of the number. The compiler keeps only the first branch for a number that it knows.
    asm volatile("" : "+r"(not_negative)::"memory");
    while (not_negative < 0) pause(0);
}

}  // namespace tilewright::hopper
