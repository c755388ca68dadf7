// Each check of the emulator is provoked once: what a kernel may not do is an error that says who did what.
#include "emulator/emulator.h"
#include "emulator/primitives.h"
#include "emulator/ring_kernel.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::tests {
namespace {

using emulator::Launch;
using emulator::Timing;
using namespace hopper;

struct Shared {
    alignas(1024) u8 bytes[64 * 128];
    alignas(1024) u8 more[8 * 128];
    Barrier barrier;
};

const Launch one_warp{.threads = 32, .shared_bytes = sizeof(Shared)};
const Launch one_warpgroup{.threads = 128, .shared_bytes = sizeof(Shared)};
const Launch pair{.blocks = 2, .cluster = 2, .threads = 32, .shared_bytes = sizeof(Shared)};

std::string error(const Launch& launch, void (*kernel)(Shared&)) {
    try {
        emulator::launch(launch, [&] { kernel(shared_memory<Shared>()); });
    } catch (const emulator::Error& found) {
        return found.what();
    }
    return "none";
}

void expect_error(const Launch& launch, const std::string& text, void (*kernel)(Shared&)) {
    const std::string found = error(launch, kernel);
    EXPECT_NE(found.find(text), std::string::npos) << "expected: " << text << "\nfound: " << found;
}

bool first() { return thread_index() == 0; }

void open(Shared& shared, int arrivals) {
    if (first()) {
        barrier_init(shared.barrier, arrivals);
        barrier_init_fence();
    }
    sync_block();
}

alignas(128) std::array<u8, 64 * 128> tensor{};

TensorMapDescription rows_of_128() {
    return {.base = tensor.data(),
            .element_bytes = 1,
            .sizes = {128, 64, 1},
            .strides = {128, 8192},
            .box = {128, 8, 1},
            .swizzled = true};
}

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
    expect_error(one_warp, "store_matrix: offset 8 is no multiple of 16",
                 [](Shared& shared) { store_matrix(shared.bytes + 8, 0, 0, 0, 0); });
}
TEST(Checks, WgmmaWithoutProxyFence) {
    expect_error(one_warpgroup, "wgmma reads offset 0 of shared memory, which thread 0 wrote without fence_async_proxy",
                 [](Shared& shared) {
                     if (first()) store_shared(*reinterpret_cast<float*>(shared.bytes), 1);
                     sync_block();
                     float d[4];
                     wgmma_fence();
                     wgmma<8, Storage::e4m3, Storage::e4m3>(d, matrix_descriptor(shared.bytes),
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
    wgmma<8, Storage::e4m3, Storage::e4m3>(d, matrix_descriptor(shared.bytes) + a_offset,
                                           matrix_descriptor(shared.more) + b_offset, false);
    wgmma_commit();
    wgmma_wait<0>();
}

TEST(Checks, Descriptors) {
    EXPECT_EQ(error(one_warpgroup, &multiply<6, 2>), "none");  // the last 32 of 128 bytes of k
    expect_error(one_warpgroup, "wgmma: 8 rows at offset 10240 are not in shared memory", &multiply<0, 128>);
    expect_error(one_warpgroup, "wgmma: rows at offset 112 do not begin with a group of 8 rows", &multiply<7, 0>);
    expect_error(one_warpgroup, "wgmma: rows at offset 512 do not begin with a group of 8 rows", &multiply<32, 0>);
    expect_error(one_warpgroup, "matrix_descriptor: offset 512 is no multiple of 1024",
                 [](Shared& shared) { matrix_descriptor(shared.bytes + 512); });
    expect_error(one_warp, "wgmma: not in a warpgroup of 128 threads", &multiply<0, 0>);
}

// ---- TMA

TEST(Checks, TensorMaps) {
    const auto refused = [](void (*change)(TensorMapDescription&)) -> std::string {
        TensorMapDescription map = rows_of_128();
        change(map);
        try {
            emulator::encode(map);
        } catch (const emulator::Error& found) {
            return found.what();
        }
        return "none";
    };
    EXPECT_EQ(refused([](auto&) {}), "none");
    EXPECT_EQ(refused([](auto& m) { m.base = tensor.data() + 8; }), "encode: the base is not aligned to 16 bytes");
    EXPECT_EQ(refused([](auto& m) { m.element_bytes = 3; }), "encode: elements of 3 bytes; 1, 2 or 4");
    EXPECT_EQ(refused([](auto& m) { m.sizes[1] = 0; }), "encode: size 0 of dimension 1; 1 to 2^32");
    EXPECT_EQ(refused([](auto& m) { m.strides[0] = 136; }),
              "encode: a stride of 136 bytes; a multiple of 16 below 2^40");
    EXPECT_EQ(refused([](auto& m) { m.box[1] = 257; }), "encode: box 257 in dimension 1; 1 to 256");
    EXPECT_EQ(refused([](auto& m) { m.box[0] = 24; }), "encode: 24 bytes in a row of the box; a multiple of 16");
    EXPECT_EQ(refused([](auto& m) { m.box[0] = 256; }), "encode: 256 bytes in a row of a swizzled box; 128");
}
TEST(Checks, ForeignTensorMap) {
    expect_error(one_warp, "tma_prefetch: not a tensor map of emulator::encode", [](Shared&) {
        const TensorMap map{};
        tma_prefetch(map);
    });
}

void load(Shared& shared, u8* to, u16 blocks) {
    open(shared, 1);
    if (!first()) return;
    const TensorMap map = emulator::encode(rows_of_128());
    barrier_arrive_expect(shared.barrier, 8 * 128);
    tma_load_multicast(to, map, shared.barrier, 0, 0, 0, blocks);
}

TEST(Checks, PlacesOfCopies) {
    expect_error(one_warp, "tma_load: offset 128 of shared memory is no multiple of 1024",
                 [](Shared& shared) { load(shared, shared.bytes + 128, 1); });
    expect_error(one_warp, "1024 bytes are not all in the block's",
                 [](Shared& shared) { load(shared, shared.more + 2048, 1); });
    expect_error(one_warp, "tma_load_multicast: blocks 0b11 of a cluster of 1",
                 [](Shared& shared) { load(shared, shared.bytes, 3); });
}
TEST(Checks, CopiesThatNobodyWaitsFor) {
    Launch launch = one_warp;
    launch.tma = Timing::late;
    expect_error(launch, "ended with 1 copies in flight", [](Shared& shared) { load(shared, shared.bytes, 1); });
}
TEST(Checks, PeerNotReadyForACopy) {
    Launch launch = pair;
    expect_error(launch, "of block 1's shared memory is used before barrier_init", [](Shared& shared) {
        if (block_rank() == 0) return load(shared, shared.bytes, 3);
        sync_block();
    });
}
TEST(Checks, StoresAreCommitted) {
    expect_error(one_warp, "ended with a tma_store that was never committed", [](Shared& shared) {
        if (first()) tma_store(emulator::encode(rows_of_128()), shared.bytes, 0, 0, 0);
    });
}

// ---- Launches

TEST(Checks, Launches) {
    const auto nothing = [](Shared&) {};
    expect_error({.threads = 48}, "launch: 48 threads; whole warps, 32 to 1024", nothing);
    expect_error({.blocks = 3, .cluster = 2}, "launch: 3 blocks; a positive multiple of the cluster's 2", nothing);
    expect_error({.cluster = 9}, "launch: cluster 9; 1 to 8 blocks", nothing);
    expect_error({.shared_bytes = 232449}, "232449 bytes of shared memory; at most 232448", nothing);
    expect_error({.threads = 384, .registers = 176}, "launch: 176 registers for each of 384 threads", nothing);
    EXPECT_THROW(thread_index(), emulator::Error);
    EXPECT_THROW(emulator::launch(one_warp, [] { throw std::logic_error("of the kernel"); }), std::logic_error);
}
TEST(Checks, AfterAnErrorTheNextLaunchWorks) {
    EXPECT_NE(error(pair, [](Shared&) { sync_named(1, block_rank() * 32); }), "none");
    EXPECT_EQ(error(pair, [](Shared&) { sync_cluster(); }), "none");
}
TEST(Checks, EveryThreadOfEveryBlockRunsOnce) {
    for (const std::uint64_t seed : {0, 5}) {
        std::vector<int> count(6 * 64);
        emulator::launch({.blocks = 6, .cluster = 2, .threads = 64, .seed = seed}, [&] {
            EXPECT_EQ(block_count(), 6);
            EXPECT_EQ(block_rank(), block_index() % 2);
            EXPECT_EQ(thread_index(), warp_index() * 32 + lane_index());
            ++count[block_index() * 64 + thread_index()];
        });
        EXPECT_EQ(count, std::vector<int>(6 * 64, 1));
    }
}
TEST(Checks, SharedMemoryStartsAsNaN) {
    emulator::launch(one_warp, [] {
        for (const u8 byte : shared_memory<Shared>().bytes) ASSERT_EQ(byte, 0xFF);
    });
}

}  // namespace
}  // namespace tilewright::tests
