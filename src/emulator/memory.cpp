// Indices of threads, ordinary loads and stores, and arithmetic.
#include "emulator/machine.h"
#include "emulator/race.h"
#include "formats/codec.h"

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>

namespace tilewright::emulator {
namespace {

void write(void* to, const void* value, u32 bytes) {
    const u32 offset = shared_offset(*me().block, to, bytes);
    std::memcpy(to, value, bytes);
    race::writes(to, bytes);
    hide_from_engines(offset, bytes);
}

template <class T>
T read(const T& from) {
    static_cast<void>(shared_offset(*me().block, &from, sizeof from));
    race::reads(&from, sizeof from);
    return from;
}

/// The addresses that the lanes of a warp pass, together.
const std::array<u8*, hopper::warp_threads>& rows_of_lanes(const char* primitive, void* row) {
    const u32 offset = shared_offset(*me().block, row, 16);
    if (offset % 16 != 0) fail(fmt::format("{}: offset {} is not a multiple of 16", primitive, offset));
    Warp& warp = me().own_warp();
    auto& rows = warp.matrix_rows[warp.sync_point.generation % 2];
    rows[me().lane()] = static_cast<u8*>(row);
    synchronise(warp.sync_point, primitive, 0, hopper::warp_threads, false);
    return rows;
}

void see_writes(Thread& thread) {
    for (const u32 word : thread.unseen_writes) {
        u16& writer = thread.block->writers[word];
        if (writer != thread.index + 1) continue;
        writer = 0;
        --thread.block->unseen;
    }
    thread.unseen_writes.clear();
}

}  // namespace

u32 shared_offset(const Block& block, const void* pointer, u32 bytes) {
    const auto offset = reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(block.shared);
    const auto limit = static_cast<std::uintptr_t>(machine().options().shared_bytes);
    if (offset >= limit || bytes > limit - offset) {
        fail(fmt::format("{} bytes are not all in the block's {} bytes of shared memory", bytes, limit));
    }
    return static_cast<u32>(offset);
}

void hide_from_engines(u32 offset, u32 bytes) {
    Thread& thread = me();
    Block& block = *thread.block;
    for (u32 word = offset / 4; word < (offset + bytes + 3) / 4; ++word) {
        if (block.writers[word] == 0) ++block.unseen;
        block.writers[word] = static_cast<u16>(thread.index + 1);
        thread.unseen_writes.push_back(word);
    }
}

void check_visible(const Thread& reader, const char* primitive, u32 offset, u32 bytes) {
    if (reader.block->unseen == 0) return;
    for (u32 word = offset / 4; word < (offset + bytes) / 4; ++word) {
        const u16 writer = reader.block->writers[word];
        if (writer == 0) continue;
        fail(reader, fmt::format("{} reads offset {} of shared memory, which thread {} wrote without fence_async_proxy",
                                 primitive, word * 4, writer - 1));
    }
}

void* shared_memory(int bytes) {
    if (bytes > machine().options().shared_bytes) {
        fail(fmt::format("shared_memory: {} bytes; the launch gave {}", bytes, machine().options().shared_bytes));
    }
    return me().block->shared;
}

}  // namespace tilewright::emulator

namespace tilewright::hopper {

using namespace emulator;

int thread_index() { return me().index; }
int warp_index() {
    synchronise(me().own_warp().sync_point, "warp_index", 0, warp_threads, false);
    return me().warp();
}
int lane_index() { return me().lane(); }
bool is_elected() { return lane_index() == 0; }
int block_index() { return me().block->index; }
int block_count() { return machine().options().blocks; }
int block_threads() { return machine().options().threads; }
int block_rank() { return me().block->rank; }
int same_in_warp(int value) {
    Warp& warp = me().own_warp();
    int& first = warp.first_value[warp.sync_point.generation % 2];
    if (me().lane() == 0) first = value;
    synchronise(warp.sync_point, "same_in_warp", 0, warp_threads, false);
    return first;
}

int from_lane(int value, int lane) {
    Warp& warp = me().own_warp();
    auto& values = warp.values[warp.sync_point.generation % 2];
    values[me().lane()] = value;
    synchronise(warp.sync_point, "from_lane", 0, warp_threads, false);
    return values[static_cast<unsigned>(lane) % warp_threads];
}
u32 ballot(bool yes) {
    Warp& warp = me().own_warp();
    auto& values = warp.values[warp.sync_point.generation % 2];
    values[me().lane()] = yes ? 1 : 0;
    synchronise(warp.sync_point, "ballot", 0, warp_threads, false);
    u32 bits = 0;
    for (int lane = 0; lane < warp_threads; ++lane) bits |= static_cast<u32>(values[lane]) << lane;
    return bits;
}
int count_bits(u32 bits) { return std::popcount(bits); }
int lowest_bit(u32 bits) { return std::countr_zero(bits); }
int highest_bit(u32 bits) { return 31 - std::countl_zero(bits); }

void fence_async_proxy() { see_writes(me()); }

float load_shared(const float& from) { return read(from); }
Pair load_shared(const Pair& from) { return read(from); }
int load_shared(const int& from) { return read(from); }
u32 load_shared(const u16& from) { return read(from); }
int load_peer(const int& from, int rank) {
    if (rank < 0 || rank >= machine().cluster_size()) {
        fail(fmt::format("load_peer: block {} of a cluster of {}", rank, machine().cluster_size()));
    }
    const Block& peer = machine().block(rank);
    if (peer.running < machine().options().threads) fail(fmt::format("load_peer: block {} may have ended", rank));
    const auto& there = *reinterpret_cast<const int*>(peer.shared + shared_offset(*me().block, &from, sizeof from));
    race::reads(&there, sizeof there);
    return there;
}
void store_shared(int& to, int value) { write(&to, &value, sizeof value); }
void store_shared(float& to, float value) { write(&to, &value, sizeof value); }
Quad load_shared(const Quad& from) { return read(from); }
WordPair load_shared(const WordPair& from) { return read(from); }
WordQuad load_shared(const WordQuad& from) { return read(from); }
void store_shared(u32& to, u32 value) { write(&to, &value, sizeof value); }
void store_shared(Pair& to, Pair value) { write(&to, &value, sizeof value); }
void store_shared(WordQuad& to, WordQuad value) { write(&to, &value, sizeof value); }

void store_matrix(void* row, u32 first, u32 second, u32 third, u32 fourth) {
    const auto& rows = rows_of_lanes("store_matrix", row);
    const auto lane = static_cast<std::size_t>(me().lane());
    const std::array<u32, 4> values{first, second, third, fourth};
    for (std::size_t matrix = 0; matrix < 4; ++matrix) {
        write(rows[matrix * 8 + lane / 4] + lane % 4 * 4, &values[matrix], 4);
    }
}
void store_matrix_transposed(void* row, u32 first, u32 second, u32 third, u32 fourth) {
    const auto& rows = rows_of_lanes("store_matrix_transposed", row);
    const auto lane = static_cast<std::size_t>(me().lane());
    const std::array<u32, 4> values{first, second, third, fourth};
    for (std::size_t matrix = 0; matrix < 4; ++matrix) {
        for (std::size_t i = 0; i < 2; ++i) {
            const auto value = static_cast<u16>(values[matrix] >> 16 * i);
            write(rows[matrix * 8 + lane % 4 * 2 + i] + lane / 4 * 2, &value, sizeof value);
        }
    }
}

void load_matrix_transposed(u32 (&values)[4], const void* row) {
    const auto& rows = rows_of_lanes("load_matrix_transposed", const_cast<void*>(row));
    const auto lane = static_cast<std::size_t>(me().lane());
    for (std::size_t matrix = 0; matrix < 4; ++matrix) {
        u32 pair = 0;
        for (std::size_t i = 0; i < 2; ++i) {
            const u8* const from = rows[matrix * 8 + lane % 4 * 2 + i] + lane / 4 * 2;
            pair |= static_cast<u32>(from[0] | from[1] << 8) << 16 * i;
            race::reads(from, 2);
        }
        values[matrix] = pair;
    }
    me().fragments_fenced = false;
}

int claim(u32* flags, int count) {
    for (int at = 0;; at = (at + 1) % count) {
        if (std::atomic_ref<u32>(flags[at]).exchange(1) == 0) return at;
    }
}
void release(u32& flag) { std::atomic_ref<u32>(flag).store(0); }
void store_release(u64* to, u64 value) { std::atomic_ref<u64>(*to).store(value, std::memory_order_release); }
/// Whoever waits for a word loads it again and again, and it may come from the emulator of another thread.
u64 load_acquire(const u64* from) {
    machine().give_up_turn();
    std::this_thread::yield();
    return std::atomic_ref<u64>(*const_cast<u64*>(from)).load(std::memory_order_acquire);
}
u8 load_fresh(const u8* from) { return *from; }
u16 load_fresh(const u16* from) { return *from; }
u32 load_fresh(const u32* from) { return *from; }
int load_fresh(const int* from) { return *from; }
IntQuad load_fresh(const IntQuad* from) { return *from; }
i64 nanoseconds() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}
IntQuad load_global(const IntQuad* from) { return *from; }
void prefetch_global(const void* from) {
    Counts* const counts = machine().options().counts;
    if (counts != nullptr) counts->prefetched.insert(from);
}

u32 permute_bytes(u32 low, u32 high, u32 selector) {
    const u64 bytes = low | u64{high} << 32;
    u32 result = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 byte = static_cast<u32>(bytes >> 8 * (selector >> 4 * i & 7U) & 0xFFU);
        const bool copies_top_bit = (selector >> 4 * i & 8U) != 0;
        result |= (copies_top_bit ? (byte >> 7) * 0xFFU : byte) << 8 * i;
    }
    me().fragments_fenced = false;
    return result;
}

u32 top_bit_mask(u32 word, int byte) {
    me().fragments_fenced = false;
    return (word >> (8 * byte + 7) & 1U) != 0 ? ~0U : 0;
}

u32 held_constant(u32 value) { return value; }

u32 two_signed_bytes(u32 word, int first) {
    const auto half = [&](int byte) {
        const u32 value = word >> 8 * byte & 0xFFU;
        return value | (value >> 7) * 0xFF00U;
    };
    me().fragments_fenced = false;
    return half(first) | half(first + 1) << 16;
}

u32 multiply_bytes(u32 a, u32 b) {
    u32 sum = 0;
    for (int i = 0; i < 32; i += 8) sum += (a >> i & 0xFFU) * (b >> i & 0xFFU);
    return sum;
}

u32 low_half_twice(u32 pair) { return (pair & 0xFFFFU) * 0x1'0001U; }
u32 high_half_twice(u32 pair) { return (pair >> 16) * 0x1'0001U; }
u32 multiply_bf16(u32 a, u32 b) {
    const auto product = [&](int shift) {
        return u32{to_bf16(from_bf16(static_cast<u16>(a >> shift)) * from_bf16(static_cast<u16>(b >> shift)))} << shift;
    };
    me().fragments_fenced = false;
    return product(0) | product(16);
}

float fma(float a, float b, float c) {
    const float result = std::fma(a, b, c);
    return std::isnan(result) ? std::bit_cast<float>(0x7FFF'FFFFU) : result;
}
u16 to_bf16(float value) {
    return static_cast<u16>(formats::encode(formats::bf16_fields, value, formats::Overflow::propagate));
}
u16 to_f16(float value) {
    return static_cast<u16>(formats::encode(formats::f16_fields, value, formats::Overflow::propagate));
}
u32 pack_bf16(float low, float high) { return to_bf16(low) | u32{to_bf16(high)} << 16; }
u32 pack_f16(float low, float high) { return to_f16(low) | u32{to_f16(high)} << 16; }
float from_bf16(u16 code) { return std::bit_cast<float>(u32{code} << 16); }
float from_f16(u16 code) { return formats::decode(formats::f16_fields, code); }

}  // namespace tilewright::hopper
