// TMA: tensor maps, and copies of boxes between tensors and shared memory.
#include "emulator/machine.h"
#include "emulator/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tilewright::emulator {
namespace {

using hopper::TensorMap;
using hopper::TensorMapDescription;

constexpr u64 encoded_here = 0x7469'6C65'6D61'7000;  // the last word of our maps
constexpr u64 unfenced = 1;                          // the first word of padding of a written one
constexpr int swizzle_row_bytes = 128;
constexpr int chunk_bytes = 16;

struct EncodedMap {
    TensorMapDescription description;
    u64 padding[(sizeof(TensorMap) - sizeof(TensorMapDescription)) / 8 - 1];
    u64 signature;
};
static_assert(sizeof(EncodedMap) == sizeof(TensorMap));

TensorMapDescription decode(const char* primitive, const TensorMap& map) {
    const auto encoded = std::bit_cast<EncodedMap>(map);
    if (encoded.signature != encoded_here) fail(fmt::format("{}: not a tensor map of emulator::encode", primitive));
    if (encoded.padding[0] == unfenced) fail(fmt::format("{}: a tensor map that no fence followed", primitive));
    return encoded.description;
}

int map_row_bytes(const TensorMapDescription& map) { return static_cast<int>(map.box[0]) * map.element_bytes; }

/// Chunks of 16 bytes change places within a row of the box.
u32 swizzled(u32 offset, int row_bytes) {
    return offset ^ (offset >> 7 & static_cast<u32>(row_bytes / chunk_bytes - 1)) << 4;
}

int box_bytes(const TensorMapDescription& map) {
    return map_row_bytes(map) * static_cast<int>(map.box[1] * map.box[2]);
}

/// Calls visit(bytes in shared memory, bytes in the tensor or null where the box hangs over, count) for each run of
/// bytes that is contiguous in both.
template <class Visit>
void for_each_run(const TensorMapDescription& map, u8* shared, u32 offset, const std::array<int, 3>& at, Visit visit) {
    const int bytes = map_row_bytes(map);
    const int rows = static_cast<int>(map.box[1]);
    const long long row_end = static_cast<long long>(map.sizes[0]) * map.element_bytes;
    for (int row = 0; row < rows * static_cast<int>(map.box[2]); ++row) {
        const long long y = at[1] + row % rows;
        const long long z = at[2] + row / rows;
        const bool inside =
            y >= 0 && y < static_cast<long long>(map.sizes[1]) && z >= 0 && z < static_cast<long long>(map.sizes[2]);
        const u8* const line = inside ? static_cast<const u8*>(map.base) + y * static_cast<long long>(map.strides[0]) +
                                            z * static_cast<long long>(map.strides[1])
                                      : nullptr;
        for (int begin = 0; begin < bytes; begin += chunk_bytes) {
            const u32 packed = offset + row * bytes + begin;
            u8* const chunk = shared + (map.swizzled ? swizzled(packed, bytes) : packed);
            const long long x = static_cast<long long>(at[0]) * map.element_bytes + begin;
            const bool whole = line != nullptr && x >= 0 && x + chunk_bytes <= row_end;
            const int run = whole ? chunk_bytes : map.element_bytes;
            for (int i = 0; i < chunk_bytes; i += run) {
                const bool in = line != nullptr && x + i >= 0 && x + i < row_end;
                visit(chunk + i, in ? line + x + i : nullptr, run);
            }
        }
    }
}

u32 checked_place(const char* primitive, const TensorMapDescription& map, const void* shared) {
    const u32 offset = shared_offset(*me().block, shared, box_bytes(map));
    const bool wide = map_row_bytes(map) == swizzle_row_bytes;
    const u32 alignment = !map.swizzled ? 128 : wide ? hopper::tile_alignment : hopper::raw_alignment;
    if (offset % alignment != 0) {
        fail(fmt::format("{}: offset {} of shared memory is not a multiple of {}", primitive, offset, alignment));
    }
    return offset;
}

struct Load {
    const Thread& issuer;
    TensorMapDescription map;
    u32 to;
    u32 barrier;
    std::array<int, 3> at;
    u16 blocks;
    const TensorMap* described_by;

    template <class Visit>
    void for_each_block(Visit visit) const {
        for (int rank = 0; rank < machine().cluster_size(); ++rank) {
            if ((blocks >> rank & 1) != 0) visit(machine().block(rank));
        }
    }

    void run() const {
        --machine().loads_of(described_by);
        for_each_block([&](Block& block) {
            for_each_run(map, block.shared, to, at, [](u8* shared, const u8* global, int bytes) {
                if (global != nullptr) {
                    std::memcpy(shared, global, bytes);
                } else {
                    std::memset(shared, 0, bytes);
                }
            });
            race::engine_writes(block.shared + to, box_bytes(map), block.shared + barrier);
            deliver(issuer, block, barrier, box_bytes(map));
        });
    }
};

void count_outside_rows(const TensorMapDescription& map, const std::array<int, 3>& at) {
    Counts* const counts = machine().options().counts;
    if (counts == nullptr) return;
    const long long end = static_cast<long long>(map.sizes[1]), first = at[1], last = first + map.box[1];
    const long long inside = std::max(std::min(last, end) - std::max(first, 0LL), 0LL);
    counts->outside_rows[map.base] += map.box[1] - inside;
}

void start(const Load& load) {
    count_outside_rows(load.map, load.at);
    load.for_each_block([&](Block& block) {
        static_cast<void>(barrier_state(load.issuer, block, load.barrier));
        // From here on the bytes may change at any time.
        std::memset(block.shared + load.to, 0xFF, box_bytes(load.map));
    });
    if (machine().loses_load()) return;
    ++machine().loads_of(load.described_by);
    machine().run_or_delay([load] { load.run(); });
}

void run(const Thread& issuer, Store& store) {
    check_visible(issuer, "tma_store, as late as it may read,", store.from, box_bytes(store.map));
    for_each_run(store.map, issuer.block->shared, store.from, store.at,
                 [](const u8* shared, const u8* global, int bytes) {
                     if (global != nullptr) std::memcpy(const_cast<u8*>(global), shared, bytes);
                 });
    store.done = true;
}

class WaitForStores final : public Wait {
public:
    explicit WaitForStores(const Thread& thread) : thread_(thread) {}
    bool ready() override {
        return std::all_of(thread_.stores.begin(), thread_.stores.end(),
                           [](const Store& store) { return store.done || !store.committed; });
    }
    std::string what() const override { return "tma_store_wait"; }

private:
    const Thread& thread_;
};

void finish_stores() {
    Thread& thread = me();
    for (Store& store : thread.stores) {
        if (!store.committed || store.done) continue;
        machine().put_in_flight([&thread, &store] { run(thread, store); });
    }
    WaitForStores wait(thread);
    machine().wait_for(wait);
    std::erase_if(thread.stores, [](const Store& store) { return store.done; });
}

}  // namespace

TensorMap encode(const TensorMapDescription& map) {
    const auto demand = [](bool holds, const std::string& text) {
        if (!holds) throw Error("encode: " + text);
    };
    const int element = map.element_bytes;
    demand(element == 1 || element == 2 || element == 4, fmt::format("elements of {} bytes; 1, 2 or 4", element));
    demand(reinterpret_cast<std::uintptr_t>(map.base) % 16 == 0, "the base is not aligned to 16 bytes");
    for (int i = 0; i < 3; ++i) {
        demand(map.sizes[i] >= 1 && map.sizes[i] <= u64{1} << 32,
               fmt::format("size {} of dimension {}; 1 to 2^32", map.sizes[i], i));
        demand(map.box[i] >= 1 && map.box[i] <= 256, fmt::format("box {} in dimension {}; 1 to 256", map.box[i], i));
    }
    for (const u64 stride : map.strides) {
        demand(stride % 16 == 0 && stride < u64{1} << 40,
               fmt::format("a stride of {} bytes; a multiple of 16 below 2^40", stride));
    }
    demand(map_row_bytes(map) % 16 == 0,
           fmt::format("{} bytes in a row of the box; a multiple of 16", map_row_bytes(map)));
    demand(!map.swizzled || map_row_bytes(map) == swizzle_row_bytes || map_row_bytes(map) == hopper::raw_row_bytes,
           fmt::format("{} bytes in a row of a swizzled box; 64 or 128", map_row_bytes(map)));
    return std::bit_cast<TensorMap>(EncodedMap{.description = map, .padding = {}, .signature = encoded_here});
}

}  // namespace tilewright::emulator

namespace tilewright::hopper {

using namespace emulator;

void tma_prefetch(const TensorMap& map) { static_cast<void>(emulator::decode("tma_prefetch", map)); }

void tma_load(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z) {
    tma_load_multicast(to, map, barrier, x, y, z, static_cast<u16>(1U << me().block->rank));
}

void tma_load_once(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z) {
    tma_load(to, map, barrier, x, y, z);
}

void tma_load_multicast(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z, u16 blocks) {
    const TensorMapDescription description = emulator::decode("tma_load", map);
    if (blocks == 0 || blocks >> machine().cluster_size() != 0) {
        fail(fmt::format("tma_load_multicast: blocks {:#b} of a cluster of {}", blocks, machine().cluster_size()));
    }
    if (x * description.element_bytes % 16 != 0) {
        fail(fmt::format("tma_load: a box at element {} of {} bytes; an H200 begins loads at multiples of 16 bytes", x,
                         description.element_bytes));
    }
    start({.issuer = me(),
           .map = description,
           .to = checked_place("tma_load", description, to),
           .barrier = shared_offset(*me().block, &barrier, sizeof barrier),
           .at = {x, y, z},
           .blocks = blocks,
           .described_by = &map});
}

void write_tensor_map(TensorMap& to, const TensorMap& from, const void* base, int size, i64 stride) {
    if (machine().loads_of(&to) != 0) fail("write_tensor_map: a load that uses the map has not arrived");
    if (reinterpret_cast<std::uintptr_t>(&to) % sizeof to != 0) fail("write_tensor_map: a map at no multiple of 128");
    TensorMapDescription description = emulator::decode("write_tensor_map", from);
    description.base = base;
    description.sizes[0] = static_cast<u64>(size);
    description.strides[0] = static_cast<u64>(stride);
    auto encoded = std::bit_cast<EncodedMap>(encode(description));
    encoded.padding[0] = unfenced;
    to = std::bit_cast<TensorMap>(encoded);
}

void fence_tensor_maps(const TensorMap& first, const TensorMap& second) {
    for (const TensorMap* map : {&first, &second}) {
        auto encoded = std::bit_cast<EncodedMap>(*map);
        encoded.padding[0] = 0;
        const_cast<TensorMap&>(*map) = std::bit_cast<TensorMap>(encoded);
    }
}

void store_peer(Quad& to, Quad value, Barrier& barrier, int rank) {
    if (rank < 0 || rank >= machine().cluster_size()) {
        fail(fmt::format("store_peer: block {} of a cluster of {}", rank, machine().cluster_size()));
    }
    const Thread& thread = me();
    const u32 place = shared_offset(*thread.block, &to, sizeof to);
    const u32 signal = shared_offset(*thread.block, &barrier, sizeof barrier);
    Block& peer = machine().block(rank);
    static_cast<void>(barrier_state(thread, peer, signal));
    std::memset(peer.shared + place, 0xFF, sizeof to);  // from here on it may change at any time
    machine().run_or_delay([=, &thread, &peer] {
        std::memcpy(peer.shared + place, &value, sizeof value);
        race::engine_writes(peer.shared + place, sizeof value, peer.shared + signal);
        deliver(thread, peer, signal, sizeof value);
    });
}

void tma_store(const TensorMap& map, const void* from, int x, int y, int z) {
    const TensorMapDescription description = emulator::decode("tma_store", map);
    if (x < 0 || y < 0 || z < 0) {
        fail(fmt::format("tma_store: box at {}, {}, {}; an H200 takes no negative place for stores", x, y, z));
    }
    const u32 offset = checked_place("tma_store", description, from);
    check_visible(me(), "tma_store", offset, box_bytes(description));
    race::reads(from, box_bytes(description));
    Store& store = me().stores.emplace_back(Store{.map = description, .from = offset, .at = {x, y, z}});
    if (machine().options().tma == Timing::early) run(me(), store);
    machine().maybe_lose_turn();
}

void tma_store_once(const TensorMap& map, const void* from, int x, int y, int z) { tma_store(map, from, x, y, z); }

void tma_store_commit() {
    for (Store& store : me().stores) store.committed = true;
}
void tma_store_wait_read() { finish_stores(); }
void tma_store_wait() { finish_stores(); }

}  // namespace tilewright::hopper
