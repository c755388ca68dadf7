// As checks_test.cpp, for TMA and launches.
#include "emulator/checks.h"

#include <array>
#include <stdexcept>
#include <vector>

namespace tilewright::tests {
namespace {

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
    EXPECT_EQ(refused([](auto& m) { m.box[0] = 256; }), "encode: 256 bytes in a row of a swizzled box; 64 or 128");
}
TEST(Checks, ForeignTensorMap) {
    expect_error(one_warp, "tma_prefetch: not a tensor map of emulator::encode", [](Shared&) {
        const TensorMap map{};
        tma_prefetch(map);
    });
}

void load(Shared& shared, u8* to, u16 blocks, int x = 0) {
    open(shared, 1);
    if (!first()) return;
    const TensorMap map = emulator::encode(rows_of_128());
    barrier_arrive_expect(shared.barrier, 8 * 128);
    tma_load_multicast(to, map, shared.barrier, x, 0, 0, blocks);
}

TEST(Checks, PlacesOfCopies) {
    expect_error(one_warp, "tma_load: offset 128 of shared memory is not a multiple of 1024",
                 [](Shared& shared) { load(shared, shared.bytes + 128, 1); });
    expect_error(one_warp, "1024 bytes are not all in the block's",
                 [](Shared& shared) { load(shared, reinterpret_cast<u8*>(&shared + 1), 1); });
    expect_error(one_warp, "tma_load_multicast: blocks 0b11 of a cluster of 1",
                 [](Shared& shared) { load(shared, shared.bytes, 3); });
    expect_error(one_warp, "tma_load: a box at element 8 of 1 bytes; an H200 begins loads at multiples of 16 bytes",
                 [](Shared& shared) { load(shared, shared.bytes, 1, 8); });
}
TEST(Checks, RowsOutsideOfTheTensorAreCounted) {
    emulator::Counts counts;
    Launch launch = one_warp;
    launch.counts = &counts;
    emulator::launch(launch, [] {
        auto& shared = shared_memory<Shared>();
        open(shared, 4);
        if (!first()) return;
        const TensorMap map = emulator::encode(rows_of_128());
        for (const int row : {0, 60, 64, -3}) {
            barrier_arrive_expect(shared.barrier, 8 * 128);
            tma_load(shared.bytes, map, shared.barrier, 0, row, 0);
        }
    });
    EXPECT_EQ(counts.outside_rows.at(tensor.data()), 4 + 8 + 3);
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
    expect_error(one_warp, "tma_store: box at -8, 0, 0; an H200 takes no negative place for stores",
                 [](Shared& shared) {
                     if (first()) tma_store(emulator::encode(rows_of_128()), shared.bytes, -8, 0, 0);
                 });
    expect_error(one_warp, "ended with a tma_store that was never committed", [](Shared& shared) {
        if (first()) tma_store(emulator::encode(rows_of_128()), shared.bytes, 0, 0, 0);
    });
}

// ---- Launches

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
