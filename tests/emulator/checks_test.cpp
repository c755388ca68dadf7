// Each check of the emulator is provoked once: what a kernel may not do is an error that says who did what. Here:
// threads that wait, mbarriers, registers, shared memory, wgmma.
#include "emulator/checks.h"

#include <cmath>

namespace tilewright::tests {
namespace {

// ---- Threads that wait for each other

TEST(Checks, DeadlockNamesWhoWaitsWhere) {
    Launch launch = one_warp;
    launch.role = [](int) { return "worker"; };
    expect_error(launch,
                 "deadlock: no thread can go on and nothing is in flight\n"
                 "  block 0, 31 threads from 1 to 31, worker: sync_block: 31 of 32 threads are here",
                 [](Shared&) {
                     if (!first()) sync_block();
                 });
}
TEST(Checks, WaitNamesBarrierAndStage) {
    expect_error(one_warp, "32 threads from 0 to 31, any: barrier_wait(empty[3], parity 0): 2 of 2 arrivals",
                 [](Shared& shared) {
                     open(shared, 2);
                     barrier_wait(shared.barrier, 0, {Unread{}, BarrierName::empty, 3});
                 });
}
TEST(Checks, DifferentCollectives) {
    expect_error(one_warp, "together with threads that call", [](Shared&) {
        if (first()) {
            sync_warp();
        } else {
            same_in_warp(1);
        }
    });
}
TEST(Checks, DifferentCounts) {
    expect_error(one_warpgroup,
                 "calls sync_named(1) of 64 threads together with threads that call sync_named(1) of 128",
                 [](Shared&) { sync_named(1, warp_index() == 3 ? 64 : 128); });
}
TEST(Checks, NamedBarriers) {
    expect_error(one_warp, "sync_named: id 16; 1 to 15", [](Shared&) { sync_named(16, 32); });
    expect_error(one_warp, "sync_named(2): 48 threads; whole warps", [](Shared&) { sync_named(2, 48); });
}

// ---- mbarriers

TEST(Checks, InitialisedTwice) {
    expect_error(one_warp, "has been initialised before", [](Shared& shared) { barrier_init(shared.barrier, 1); });
}
TEST(Checks, ArrivalCounts) {
    expect_error(one_warp, "barrier_init: 0 arrivals", [](Shared& shared) { barrier_init(shared.barrier, 0); });
}
TEST(Checks, AnArrivalTooMany) {
    expect_error(one_warp, "an arrival too many; a phase has 1, and waits for 64 bytes", [](Shared& shared) {
        open(shared, 1);
        if (first()) {
            barrier_arrive_expect(shared.barrier, 64);
            barrier_arrive(shared.barrier);
        }
    });
}
TEST(Checks, TooManyBytesForAPhase) {
    expect_error(one_warp, "at most 1048575", [](Shared& shared) {
        open(shared, 1);
        if (first()) barrier_arrive_expect(shared.barrier, 1 << 20);
    });
}
TEST(Checks, MidPhaseAtTheEnd) {
    expect_error(one_warp, "ended with the barrier at offset 9216 in mid-phase: 1 of 2 arrivals", [](Shared& shared) {
        open(shared, 2);
        if (first()) barrier_arrive(shared.barrier);
    });
}
TEST(Checks, PeerThatHasEnded) {
    expect_error(pair, "belongs to block 1, which has ended", [](Shared& shared) {
        open(shared, 1);
        sync_cluster();
        if (block_rank() == 1) return;
        for (int i = 0; i < 3; ++i) sync_block();
        if (first()) barrier_arrive_peer(shared.barrier, 1);
    });
}
TEST(Checks, NoSuchPeer) {
    expect_error(pair, "barrier_arrive_peer: block 2 of a cluster of 2",
                 [](Shared& shared) { barrier_arrive_peer(shared.barrier, 2); });
    expect_error(pair, "store_peer: block 2 of a cluster of 2",
                 [](Shared& shared) { store_peer(*reinterpret_cast<Quad*>(shared.bytes), {}, shared.barrier, 2); });
}

// ---- cp.async

TEST(Checks, CopiesWithoutAnArrival) {
    static const float number = 1;
    expect_error(one_warp, "ended with a copy_async that no barrier_arrive_after_copies follows", [](Shared& shared) {
        if (first()) copy_async(*reinterpret_cast<float*>(shared.bytes), &number);
    });
}
TEST(Checks, ArrivalOfCopiesThatNobodyWaitsFor) {
    Launch launch = one_warp;
    launch.tma = Timing::late;
    expect_error(launch, "ended with 1 copies in flight", [](Shared& shared) {
        open(shared, 1);
        if (first()) barrier_arrive_after_copies(shared.barrier);
    });
}
TEST(Checks, AnArrivalOfCopiesTooLate) {
    expect_error(one_warp, "an arrival is added to a phase that waits for bytes alone", [](Shared& shared) {
        open(shared, 1);
        if (!first()) return;
        barrier_arrive_expect(shared.barrier, 64);
        barrier_arrive_after_copies(shared.barrier);
    });
}
TEST(Checks, CopiesAreNoNumbersBeforeTheyAreThere) {
    static const float number = 1;
    static float early = 0;
    Launch launch = one_warp;
    launch.tma = Timing::late;
    EXPECT_EQ(error(launch,
                    [](Shared& shared) {
                        open(shared, 1);
                        if (!first()) return;
                        auto& to = *reinterpret_cast<float*>(shared.bytes);
                        int budget = wait_budget;
                        copy_async(to, &number);
                        barrier_arrive_after_copies(shared.barrier);
                        early = load_shared(to);
                        barrier_arrive(shared.barrier);
                        barrier_wait(shared.barrier, 0, {budget, BarrierName::full, 0});
                        EXPECT_EQ(load_shared(to), 1);
                    }),
              "none");
    EXPECT_TRUE(std::isnan(early));
}

// ---- Registers

TEST(Checks, RegistersThatNobodyGives) {
    Launch launch = one_warpgroup;
    launch.registers = 128;
    expect_error(launch, "registers_take<136>: 256 registers are needed, 0 are free",
                 [](Shared&) { registers_take<136>(); });
    expect_error(launch, "registers_give<136>: has 128", [](Shared&) { registers_give<136>(); });
}
TEST(Checks, WarpsOfAWarpgroupDisagreeAboutRegisters) {
    Launch launch = one_warpgroup;
    launch.registers = 128;
    expect_error(launch, "while another warp of the warpgroup calls it with", [](Shared&) {
        if (warp_index() == 0) {
            registers_give<64>();
        } else {
            registers_give<72>();
        }
    });
    expect_error(launch, "1 of a warpgroup's 4 warps have called setmaxnreg with 64", [](Shared&) {
        if (warp_index() == 0) registers_give<64>();
    });
}

// ---- Shared memory

TEST(Checks, OutsideSharedMemory) {
    static float elsewhere = 0;
    expect_error(one_warp, "4 bytes are not all in the block's", [](Shared&) { load_shared(elsewhere); });
    expect_error({.threads = 32, .shared_bytes = 64}, "shared_memory: 10240 bytes; the launch gave 64", [](Shared&) {});
}
TEST(Checks, BeyondSharedMemory) {
    expect_error(one_warp, "wrote beyond its 10240 bytes of shared memory", [](Shared& shared) {
        u8* const end = reinterpret_cast<u8*>(&shared + 1);
        if (first()) end[3] = 1;
    });
}
TEST(Checks, RowsOfAMatrix) {
    expect_error(one_warp, "store_matrix: offset 8 is not a multiple of 16",
                 [](Shared& shared) { store_matrix(shared.bytes + 8, 0, 0, 0, 0); });
}
TEST(Checks, WgmmaWithoutProxyFence) {
    expect_error(one_warpgroup, "wgmma reads offset 0 of shared memory, which thread 0 wrote without fence_async_proxy",
                 [](Shared& shared) {
                     if (first()) store_shared(*reinterpret_cast<float*>(shared.bytes), 1);
                     sync_block();
                     float d[4];
                     wgmma_fence();
                     wgmma<8, ValueFormat::e4m3, ValueFormat::e4m3>(d, matrix_descriptor(shared.bytes),
                                                                    matrix_descriptor(shared.more), false);
                     wgmma_commit();
                     wgmma_wait<0>();
                 });
}

// ---- wgmma

template <int a_offset, int b_offset>
void multiply(Shared& shared) {
    float d[4];
    wgmma_fence();
    wgmma<8, ValueFormat::e4m3, ValueFormat::e4m3>(d, matrix_descriptor(shared.bytes) + a_offset,
                                                   matrix_descriptor(shared.more) + b_offset, false);
    wgmma_commit();
    wgmma_wait<0>();
}

TEST(Checks, Descriptors) {
    EXPECT_EQ(error(one_warpgroup, &multiply<6, 2>), "none");  // the last 32 of 128 bytes of k
    expect_error(one_warpgroup, "wgmma: 8 rows at offset 10240 are not in shared memory", &multiply<0, 128>);
    expect_error(one_warpgroup, "wgmma: rows at offset 112 do not begin with a group of 8 rows", &multiply<7, 0>);
    expect_error(one_warpgroup, "wgmma: rows at offset 512 do not begin with a group of 8 rows", &multiply<32, 0>);
    expect_error(one_warpgroup, "matrix_descriptor: offset 512 is not a multiple of 1024",
                 [](Shared& shared) { matrix_descriptor(shared.bytes + 512); });
    expect_error(one_warp, "wgmma: not in a warpgroup of 128 threads", &multiply<0, 0>);
}

/// One product with mma A from registers. `touch` writes to them: `before` the wait or after it.
template <bool fenced, bool before>
void multiply_registers(Shared& shared) {
    float d[4];
    u32 a[4]{};
    wgmma_fence();
    load_matrix_transposed(a, shared.bytes + lane_index() * 16);
    if constexpr (fenced) wgmma_fence();
    wgmma<8, ValueFormat::e4m3, ValueFormat::e4m3>(d, a, matrix_descriptor(shared.more), false);
    wgmma_commit();
    if (before) a[2] += 1;
    wgmma_wait<0>();
    a[2] += 1;
    pin(a);
}

TEST(Checks, RegistersOfMmaA) {
    for (const Timing timing : {Timing::early, Timing::late}) {
        Launch launch = one_warpgroup;
        launch.wgmma = timing;
        EXPECT_EQ(error(launch, &multiply_registers<true, false>), "none");
        expect_error(launch, "wgmma: a[2] was written before wgmma_wait", &multiply_registers<true, true>);
        expect_error(launch, "call wgmma_fence between writing registers of mma A and the wgmma that reads them",
                     &multiply_registers<false, false>);
    }
    expect_error(one_warp, "load_matrix_transposed: offset 8 is not a multiple of 16", [](Shared& shared) {
        u32 a[4];
        load_matrix_transposed(a, shared.bytes + 8);
    });
}

}  // namespace
}  // namespace tilewright::tests
