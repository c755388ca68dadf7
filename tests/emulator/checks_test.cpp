// Each check of the emulator is provoked once: what a kernel may not do is an error that says who did what.
#include "emulator/emulator.h"
#include "emulator/ring_kernel.h"

#include "emulator/primitives.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
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
const Launch late_warp{.threads = 32, .shared_bytes = sizeof(Shared), .tma = Timing::late};
const Launch of_128_registers{.threads = 128, .shared_bytes = sizeof(Shared), .registers = 128};
const Launch worker{.threads = 32, .shared_bytes = sizeof(Shared), .role = [](int) { return "worker"; }};

template <class Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (const emulator::Error& found) {
        return found.what();
    }
    return "none";
}

std::string error(const Launch& launch, void (*kernel)(Shared&)) {
    return error_of([&] { emulator::launch(launch, [&] { kernel(shared_memory<Shared>()); }); });
}

void expect_error(const Launch& launch, const std::string& text, void (*kernel)(Shared&)) {
    const std::string found = error(launch, kernel);
    EXPECT_NE(found.find(text), std::string::npos) << "expected: " << text << "\nfound: " << found;
}

bool first() { return thread_index() == 0; }

void open(Shared& s, int arrivals) {
    if (first()) {
        barrier_init(s.barrier, arrivals);
        barrier_init_fence();
    }
    sync_block();
}

TEST(Checks, ThreadsThatWait) {
    expect_error(worker,
                 "deadlock: no thread can go on and nothing is in flight\n"
                 "  block 0, 31 threads from 1 to 31, worker: sync_block: 31 of 32 threads are here",
                 [](Shared&) {
                     if (!first()) sync_block();
                 });
    expect_error(one_warp, "32 threads from 0 to 31, any: barrier_wait(empty[3], parity 0): 2 of 2 arrivals",
                 [](Shared& s) {
                     open(s, 2);
                     barrier_wait(s.barrier, 0, {Unread{}, BarrierName::empty, 3});
                 });
    expect_error(one_warp, "together with threads that call", [](Shared&) {
        if (first()) {
            sync_warp();
        } else {
            same_in_warp(1);
        }
    });
    expect_error(one_warpgroup,
                 "calls sync_named(1) of 64 threads together with threads that call sync_named(1) of 128",
                 [](Shared&) { sync_named(1, warp_index() == 3 ? 64 : 128); });
    expect_error(one_warp, "sync_named: id 16; 1 to 15", [](Shared&) { sync_named(16, 32); });
    expect_error(one_warp, "sync_named(2): 48 threads; whole warps", [](Shared&) { sync_named(2, 48); });
}

TEST(Checks, Mbarriers) {
    expect_error(one_warp, "has been initialised before", [](Shared& s) { barrier_init(s.barrier, 1); });
    expect_error(one_warp, "barrier_init: 0 arrivals", [](Shared& s) { barrier_init(s.barrier, 0); });
    expect_error(one_warp, "an arrival too many; a phase has 1, and waits for 64 bytes", [](Shared& s) {
        open(s, 1);
        if (first()) {
            barrier_arrive_expect(s.barrier, 64);
            barrier_arrive(s.barrier);
        }
    });
    expect_error(one_warp, "at most 1048575", [](Shared& s) {
        open(s, 1);
        if (first()) barrier_arrive_expect(s.barrier, 1 << 20);
    });
    expect_error(one_warp, "ended with the barrier at offset 9216 in mid-phase: 1 of 2 arrivals", [](Shared& s) {
        open(s, 2);
        if (first()) barrier_arrive(s.barrier);
    });
    expect_error(pair, "belongs to block 1, which has ended", [](Shared& s) {
        open(s, 1);
        sync_cluster();
        if (block_rank() == 1) return;
        for (int i = 0; i < 3; ++i) sync_block();
        if (first()) barrier_arrive_peer(s.barrier, 1);
    });
    expect_error(pair, "barrier_arrive_peer: block 2 of a cluster of 2",
                 [](Shared& s) { barrier_arrive_peer(s.barrier, 2); });
    expect_error(pair, "store_peer: block 2 of a cluster of 2",
                 [](Shared& s) { store_peer(*reinterpret_cast<Quad*>(s.bytes), {}, s.barrier, 2); });
}

TEST(Checks, AsynchronousCopies) {
    static const float number = 1;
    expect_error(one_warp, "ended with a copy_async that no barrier_arrive_after_copies follows", [](Shared& s) {
        if (first()) copy_async(*reinterpret_cast<float*>(s.bytes), &number);
    });
    expect_error(late_warp, "ended with 1 copies in flight", [](Shared& s) {
        open(s, 1);
        if (first()) barrier_arrive_after_copies(s.barrier);
    });
    expect_error(one_warp, "an arrival is added to a phase that waits for bytes alone", [](Shared& s) {
        open(s, 1);
        if (!first()) return;
        barrier_arrive_expect(s.barrier, 64);
        barrier_arrive_after_copies(s.barrier);
    });
}

TEST(Checks, CopiesAreNoNumbersBeforeTheyAreThere) {
    static const float number = 1;
    static float early = 0;
    EXPECT_EQ(error(late_warp,
                    [](Shared& s) {
                        open(s, 1);
                        if (!first()) return;
                        auto& to = *reinterpret_cast<float*>(s.bytes);
                        int budget = wait_budget;
                        copy_async(to, &number);
                        barrier_arrive_after_copies(s.barrier);
                        early = load_shared(to);
                        barrier_arrive(s.barrier);
                        barrier_wait(s.barrier, 0, {budget, BarrierName::full, 0});
                        EXPECT_EQ(load_shared(to), 1);
                    }),
              "none");
    EXPECT_TRUE(std::isnan(early));
}

TEST(Checks, Registers) {
    expect_error(of_128_registers, "registers_take<136>: 256 registers are needed, 0 are free",
                 [](Shared&) { registers_take<136>(); });
    expect_error(of_128_registers, "registers_give<136>: has 128", [](Shared&) { registers_give<136>(); });
    expect_error(of_128_registers, "while another warp of the warpgroup calls it with", [](Shared&) {
        if (warp_index() == 0) {
            registers_give<64>();
        } else {
            registers_give<72>();
        }
    });
    expect_error(of_128_registers, "1 of a warpgroup's 4 warps have called setmaxnreg with 64", [](Shared&) {
        if (warp_index() == 0) registers_give<64>();
    });
}

template <int a_offset, int b_offset>
void multiply(Shared& s) {
    float d[4];
    wgmma_fence();
    wgmma<8, ValueFormat::e4m3, ValueFormat::e4m3>(d, matrix_descriptor(s.bytes) + a_offset,
                                                   matrix_descriptor(s.more) + b_offset, false);
    wgmma_commit();
    wgmma_wait<0>();
}

TEST(Checks, SharedMemory) {
    static float elsewhere = 0;
    expect_error(one_warp, "4 bytes are not all in the block's", [](Shared&) { load_shared(elsewhere); });
    expect_error({.threads = 32, .shared_bytes = 64}, "shared_memory: 10240 bytes; the launch gave 64", [](Shared&) {});
    expect_error(one_warp, "wrote beyond its 10240 bytes of shared memory", [](Shared& s) {
        u8* const end = reinterpret_cast<u8*>(&s + 1);
        if (first()) end[3] = 1;
    });
    expect_error(one_warp, "store_matrix: offset 8 is not a multiple of 16",
                 [](Shared& s) { store_matrix(s.bytes + 8, 0, 0, 0, 0); });
    expect_error(one_warpgroup, "wgmma reads offset 0 of shared memory, which thread 0 wrote without fence_async_proxy",
                 [](Shared& s) {
                     if (first()) store_shared(*reinterpret_cast<float*>(s.bytes), 1);
                     sync_block();
                     multiply<0, 0>(s);
                 });
}

TEST(Checks, Descriptors) {
    EXPECT_EQ(error(one_warpgroup, &multiply<6, 2>), "none");  // the last 32 of 128 bytes of k
    expect_error(one_warpgroup, "wgmma: 8 rows at offset 10240 are not in shared memory", &multiply<0, 128>);
    expect_error(one_warpgroup, "wgmma: rows at offset 112 do not begin with a group of 8 rows", &multiply<7, 0>);
    expect_error(one_warpgroup, "wgmma: rows at offset 512 do not begin with a group of 8 rows", &multiply<32, 0>);
    expect_error(one_warpgroup, "matrix_descriptor: offset 512 is not a multiple of 1024",
                 [](Shared& s) { matrix_descriptor(s.bytes + 512); });
    expect_error(one_warp, "wgmma: not in a warpgroup of 128 threads", &multiply<0, 0>);
}

/// One product with mma A from registers, which are written `before` the wait or after it.
template <bool fenced, bool before>
void multiply_registers(Shared& s) {
    float d[4];
    u32 a[4]{};
    wgmma_fence();
    load_matrix_transposed(a, s.bytes + lane_index() * 16);
    if constexpr (fenced) wgmma_fence();
    wgmma<8, ValueFormat::e4m3, ValueFormat::e4m3>(d, a, matrix_descriptor(s.more), false);
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
    expect_error(one_warp, "load_matrix_transposed: offset 8 is not a multiple of 16", [](Shared& s) {
        u32 a[4];
        load_matrix_transposed(a, s.bytes + 8);
    });
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

TEST(Checks, TensorMaps) {
    const auto refused = [](void (*change)(TensorMapDescription&)) {
        TensorMapDescription map = rows_of_128();
        change(map);
        return error_of([&] { emulator::encode(map); });
    };
    EXPECT_EQ(refused([](auto&) {}), "none");
    EXPECT_EQ(refused([](auto& m) { m.base = tensor.data() + 8; }), "encode: the base is not aligned to 16 bytes");
    EXPECT_EQ(refused([](auto& m) { m.element_bytes = 3; }), "encode: elements of 3 bytes; 1, 2 or 4");
    EXPECT_EQ(refused([](auto& m) { m.sizes[1] = 0; }), "encode: size 0 of dimension 1; 1 to 2^32");
    EXPECT_EQ(refused([](auto& m) { m.strides[0] = 136; }),
              "encode: a stride of 136 bytes; a multiple of 16 below 2^40");
    EXPECT_EQ(refused([](auto& m) { m.box[1] = 257; }), "encode: box 257 in dimension 1; 1 to 256");
    EXPECT_EQ(refused([](auto& m) { m.box[0] = 24; }), "encode: 24 bytes in a row of the box; a multiple of 16");
    EXPECT_EQ(refused([](auto& m) { m.box[0] = 256; }), "encode: 256 bytes in a row of a swizzled box; 64 or 128");
}

void load(Shared& s, u8* to, u16 blocks, int x = 0) {
    open(s, 1);
    if (!first()) return;
    const TensorMap map = emulator::encode(rows_of_128());
    barrier_arrive_expect(s.barrier, 8 * 128);
    tma_load_multicast(to, map, s.barrier, x, 0, 0, blocks);
}

TEST(Checks, CopiesByTma) {
    expect_error(one_warp, "tma_prefetch: not a tensor map of emulator::encode", [](Shared&) {
        const TensorMap map{};
        tma_prefetch(map);
    });
    expect_error(one_warp, "tma_load: offset 128 of shared memory is not a multiple of 1024",
                 [](Shared& s) { load(s, s.bytes + 128, 1); });
    expect_error(one_warp, "1024 bytes are not all in the block's",
                 [](Shared& s) { load(s, reinterpret_cast<u8*>(&s + 1), 1); });
    expect_error(one_warp, "tma_load_multicast: blocks 0b11 of a cluster of 1", [](Shared& s) { load(s, s.bytes, 3); });
    expect_error(one_warp, "tma_load: a box at element 8 of 1 bytes; an H200 begins loads at multiples of 16 bytes",
                 [](Shared& s) { load(s, s.bytes, 1, 8); });
    expect_error(late_warp, "ended with 1 copies in flight", [](Shared& s) { load(s, s.bytes, 1); });
    expect_error(pair, "of block 1's shared memory is used before barrier_init", [](Shared& s) {
        if (block_rank() == 0) return load(s, s.bytes, 3);
        sync_block();
    });
    expect_error(one_warp, "tma_store: box at -8, 0, 0; an H200 takes no negative place for stores", [](Shared& s) {
        if (first()) tma_store(emulator::encode(rows_of_128()), s.bytes, -8, 0, 0);
    });
    expect_error(one_warp, "ended with a tma_store that was never committed", [](Shared& s) {
        if (first()) tma_store(emulator::encode(rows_of_128()), s.bytes, 0, 0, 0);
    });
}

TEST(Checks, RowsOutsideOfTheTensorAreCounted) {
    emulator::Counts counts;
    Launch launch = one_warp;
    launch.counts = &counts;
    emulator::launch(launch, [] {
        auto& s = shared_memory<Shared>();
        open(s, 4);
        if (!first()) return;
        const TensorMap map = emulator::encode(rows_of_128());
        for (const int row : {0, 60, 64, -3}) {
            barrier_arrive_expect(s.barrier, 8 * 128);
            tma_load(s.bytes, map, s.barrier, 0, row, 0);
        }
    });
    EXPECT_EQ(counts.outside_rows.at(tensor.data()), 4 + 8 + 3);
}

TEST(Checks, Launches) {
    const auto nothing = [](Shared&) {};
    expect_error({.threads = 48}, "launch: 48 threads; whole warps, 32 to 1024", nothing);
    expect_error({.blocks = 3, .cluster = 2}, "launch: 3 blocks; a positive multiple of the cluster's 2", nothing);
    expect_error({.cluster = 17}, "launch: cluster 17; 1 to 16 blocks", nothing);
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
