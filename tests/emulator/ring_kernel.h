// A small kernel in the shape of the real ones (TMA, ring, wgmma, TMA store), in which one mistake at a time can be
// planted. The emulator must catch them. D = A B^T: 128 x 32 tiles, promotion after each k-block of 128, bf16.
#pragma once

#include "emulator/emulator.h"
#include "hopper/ptx/ptx.h"

#include <cstdint>
#include <string>

namespace tilewright::tests {

using namespace hopper;

enum class Bug {
    none,
    early_release,      // a stage is given back before wgmma has read it
    read_before_wait,   // sums are read while wgmma writes them
    too_few_arrivals,   // `empty` completes one arrival early
    too_many_arrivals,  // `empty` waits for one that never comes
    wrong_phase,        // the producer waits for the phase that needs the first release
    too_many_bytes,     // `full` waits for more than is copied
    too_few_bytes,      // ... for less
    no_init_sync,       // no thread waits for barrier_init
    no_init_fence,
    no_proxy_fence,      // TMA may not see what is staged
    no_warp_sync,        // lane 0 stores what other lanes have not staged
    no_store_wait,       // the staging area is written while TMA still reads it
    no_last_store_wait,  // the block ends while TMA still reads
    no_wgmma_fence,
    no_last_wgmma_wait,   // the kernel ends with a product under way
    different_operands,   // the lanes of a warpgroup do not agree
    touched_accumulator,  // written while wgmma owns it
};

struct RingArguments {
    TensorMap a;
    TensorMap b;
    TensorMap d;
    int m_tiles;
    int k_blocks;
};

/// Where a wait keeps what only the GPU's time-out needs.
struct Unread {
    template <class T>
    operator T&() const {
        static T place{};
        return place;
    }
};

inline constexpr int ring_m = 128, ring_n = 32, ring_k = 128, ring_stages = 3, ring_warps = 8;
inline constexpr int ring_threads = 128 + ring_warps * 32;

struct RingShared {
    alignas(1024) u8 a[ring_stages][ring_m * ring_k];
    alignas(1024) u8 b[ring_stages][ring_n * ring_k];
    alignas(1024) u16 d[ring_warps][16][ring_n];
    Barrier full[ring_stages];
    Barrier empty[ring_stages];
};

struct RingPlace {
    int stage = 0;
    u32 parity = 0;
    void advance() {
        if (++stage < ring_stages) return;
        stage = 0;
        parity ^= 1;
    }
};

template <Bug bug>
void open_ring(RingShared& shared) {
    if (thread_index() == 0) {
        for (int i = 0; i < ring_stages; ++i) {
            barrier_init(shared.full[i], 1);
            barrier_init(shared.empty[i],
                         ring_warps - (bug == Bug::too_few_arrivals) + (bug == Bug::too_many_arrivals));
        }
        if (bug != Bug::no_init_fence) barrier_init_fence();
    }
    if (bug != Bug::no_init_sync) sync_block();
}

template <Bug bug>
void fill_ring(RingShared& shared, const RingArguments& arguments) {
    RingPlace place{.parity = bug == Bug::wrong_phase ? 0U : 1U};
    for (int tile = block_index(); tile < arguments.m_tiles; tile += block_count()) {
        for (int i = 0; i < arguments.k_blocks; ++i, place.advance()) {
            Barrier& full = shared.full[place.stage];
            barrier_wait(shared.empty[place.stage], place.parity, {Unread{}, BarrierName::empty, place.stage});
            const int extra = bug == Bug::too_many_bytes ? 16 : bug == Bug::too_few_bytes ? -16 : 0;
            barrier_arrive_expect(full, (ring_m + ring_n) * ring_k + extra);
            tma_load(shared.a[place.stage], arguments.a, full, i * ring_k, tile * ring_m, 0);
            tma_load(shared.b[place.stage], arguments.b, full, i * ring_k, 0, 0);
        }
    }
}

template <Bug bug>
void multiply_stage(RingShared& shared, int stage, int warp, float (&sum)[ring_n / 2]) {
    float part[ring_n / 2];
    MatrixDescriptor a = matrix_descriptor(shared.a[stage] + warp / 4 * 64 * ring_k);
    const MatrixDescriptor b = matrix_descriptor(shared.b[stage]);
    if (bug == Bug::different_operands && warp == 3) a += 2;
    if (bug != Bug::no_wgmma_fence) wgmma_fence();
    for (int i = 0; i < 4; ++i) {
        wgmma<ring_n, ValueFormat::e4m3, ValueFormat::e4m3>(part, a + 2 * i, b + 2 * i, i > 0);
    }
    wgmma_commit();
    if (bug == Bug::early_release && lane_index() == 0) barrier_arrive(shared.empty[stage]);
    if (bug == Bug::touched_accumulator) part[5] = 0;
    if (bug == Bug::read_before_wait) {
        for (int i = 0; i < ring_n / 2; ++i) sum[i] += part[i];
    }
    wgmma_wait<0>();
    if (bug != Bug::early_release && lane_index() == 0) barrier_arrive(shared.empty[stage]);
    if (bug != Bug::read_before_wait) {
        for (int i = 0; i < ring_n / 2; ++i) sum[i] += part[i];
    }
}

template <Bug bug>
void store_rows(RingShared& shared, const RingArguments& arguments, int warp, int row, const float (&sum)[ring_n / 2]) {
    auto& d = shared.d[warp];
    const int lane = lane_index();
    if (bug != Bug::no_store_wait && lane == 0) tma_store_wait_read();
    sync_warp();
    for (int j = 0; j < ring_n / 16; ++j) {
        const float* low = &sum[8 * j];
        store_matrix(&d[lane % 16][j * 16 + lane / 16 * 8], pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]),
                     pack_bf16(low[4], low[5]), pack_bf16(low[6], low[7]));
    }
    if (bug != Bug::no_proxy_fence) fence_async_proxy();
    if (bug != Bug::no_warp_sync) sync_warp();
    if (lane == 0) {
        tma_store(arguments.d, d, 0, row + warp * 16, 0);
        tma_store_commit();
    }
}

template <Bug bug>
void consume_ring(RingShared& shared, const RingArguments& arguments, int warp) {
    RingPlace place;
    for (int tile = block_index(); tile < arguments.m_tiles; tile += block_count()) {
        float sum[ring_n / 2] = {};
        for (int i = 0; i < arguments.k_blocks; ++i, place.advance()) {
            barrier_wait(shared.full[place.stage], place.parity, {Unread{}, BarrierName::full, place.stage});
            multiply_stage<bug>(shared, place.stage, warp, sum);
        }
        store_rows<bug>(shared, arguments, warp, tile * ring_m, sum);
    }
    if (bug != Bug::no_last_store_wait && lane_index() == 0) tma_store_wait();
    if (bug == Bug::no_last_wgmma_wait) {
        float part[ring_n / 2];
        wgmma_fence();
        wgmma<ring_n, ValueFormat::e4m3, ValueFormat::e4m3>(part, matrix_descriptor(shared.a),
                                                            matrix_descriptor(shared.b), false);
        wgmma_commit();
    }
}

template <Bug bug>
__global__ void ring_gemm(const __grid_constant__ RingArguments arguments) {
    auto& shared = shared_memory<RingShared>();
    open_ring<bug>(shared);
    const int warp = warp_index();
    if (warp < 4) {
        registers_give<40>();
        if (thread_index() == 0) fill_ring<bug>(shared, arguments);
    } else {
        registers_take<168>();
        consume_ring<bug>(shared, arguments, warp - 4);
    }
}

struct Timings {
    emulator::Timing tma = emulator::Timing::early;
    emulator::Timing wgmma = emulator::Timing::early;
    std::uint64_t seed = 0;
};

/// A run. Empty: the result has the expected bits. "wrong result: ..." or the error's text otherwise.
std::string outcome(void (*kernel)(RingArguments), const Timings& timings);

}  // namespace tilewright::tests
