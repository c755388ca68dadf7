// Small kernels, each for one behaviour of the hardware that the emulator reproduces. Device code: the emulator and
// NVRTC compile it, and both must write the same bits.
// - `multiply_box`: swizzle, descriptors and fragments.
// - `multiply_transposed_box`: ldmatrix and mma A from registers.
// - `stage_and_store`, `stage_transposed_and_store`: stmatrix and the clipping of stores.
// - `share_box`: multicast.
// - `copy_numbers`: copies of single numbers.
// - `complete_phases`: the phases of an mbarrier.
// - `convert`: conversions.
#pragma once

#include "hopper/ptx/ptx.h"

namespace tilewright::primitives {

using namespace hopper;

struct PrimitiveArguments {
    TensorMap a;      // 8-bit (k, row, 1), boxes of 128 x 64 (share_box: of 128 x 32), swizzled
    TensorMap b;      // 8-bit (k, row, 1), boxes of 128 x 64, swizzled
    TensorMap d;      // 16-bit (column, row, 1), boxes of 64 x 16, swizzled
    const float* in;  // convert: [count, 3]; copy_numbers: [count]
    float* out;  // multiply_(transposed_)box: [128 threads, 32]; share_box: [2 blocks, 64 x 32]; convert: [count, 3];
                 // copy_numbers: [128]
    u64* words;  // complete_phases, copy_numbers: [1]; convert: [count, 2]
    int count;
    int x;  // where the box begins
    int y;
};

struct PrimitiveShared {
    alignas(1024) u8 a[64 * 128];
    alignas(1024) u8 b[64 * 128];
    Barrier full;
};

/// A box of A from (x, y), and one of B from (b_x, b_y); all threads wait for both.
TILEWRIGHT_DEVICE void load_boxes(PrimitiveShared& shared, const PrimitiveArguments& arguments, int b_x, int b_y) {
    int budget = wait_budget;
    if (thread_index() == 0) {
        barrier_init(shared.full, 1);
        barrier_init_fence();
        barrier_arrive_expect(shared.full, 2 * 64 * 128);
        tma_load(shared.a, arguments.a, shared.full, arguments.x, arguments.y, 0);
        tma_load(shared.b, arguments.b, shared.full, b_x, b_y, 0);
    }
    sync_block();
    barrier_wait(shared.full, 0, {budget, BarrierName::full, 0});
}

/// 64 x 64 x 128 from (x, y) of both operands, which may be outside of them: each thread's fragment goes to `out`.
template <ValueFormat a_format, ValueFormat b_format>
__global__ void multiply_box(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    load_boxes(shared, arguments, arguments.x, arguments.y);
    float d[32];
    const MatrixDescriptor a = matrix_descriptor(shared.a), b = matrix_descriptor(shared.b);
    pin(d);
    wgmma_fence();
    for (int i = 0; i < 4; ++i) wgmma<64, a_format, b_format>(d, a + 2 * i, b + 2 * i, i > 0);
    wgmma_commit();
    wgmma_wait<0>();
    pin(d);
    for (int i = 0; i < 32; ++i) store_global(arguments.out + thread_index() * 32 + i, d[i]);
}

/// 64 x 64 x 64 with A in rows of k: A[k, m] from (x, y), B[n, k] from (y, x). Rows r and r + 8 of a warp's 16 are the
/// neighbours 2 r and 2 r + 1 of A.
template <ValueFormat a_format, ValueFormat b_format>
__global__ void multiply_transposed_box(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    load_boxes(shared, arguments, arguments.y, arguments.x);
    const int lane = lane_index();
    float d[32];
    u32 a[2][4];
    for (int step = 0; step < 2; ++step) {
        // The even matrices have the first two of four k that a lane needs, the odd ones the others.
        const int k = step * 32 + lane / 16 * 16 + lane / 2 % 4 * 4 + lane / 8 % 2 * 2 + lane % 2;
        u32 pairs[4];
        load_matrix_transposed(pairs, shared.a + k * 128 + (warp_index() ^ k % 8) * 16);
        for (int i = 0; i < 4; ++i) {
            a[step][i] = permute_bytes(pairs[i / 2 * 2], pairs[i / 2 * 2 + 1], i % 2 == 0 ? 0x6420 : 0x7531);
        }
    }
    const MatrixDescriptor b = matrix_descriptor(shared.b);
    pin(d);
    wgmma_fence();
    for (int i = 0; i < 2; ++i) wgmma<64, a_format, b_format>(d, a[i], b + 2 * i, i > 0);
    wgmma_commit();
    wgmma_wait<0>();
    pin(d);
    for (int i = 0; i < 2; ++i) pin(a[i]);
    for (int i = 0; i < 32; ++i) store_global(arguments.out + thread_index() * 32 + i, d[i]);
}

/// Stores at (x, y) what a warp has staged.
TILEWRIGHT_DEVICE void store_staged(const PrimitiveArguments& arguments, const PrimitiveShared& shared) {
    fence_async_proxy();
    sync_warp();
    if (lane_index() != 0) return;
    tma_store(arguments.d, shared.a, arguments.x, arguments.y, 0);
    tma_store_commit();
    tma_store_wait();
}

/// One warp stages 16 x 64 numbers, 1 + 64 row + column as 16-bit integers, and stores the box at (x, y).
inline __global__ void stage_and_store(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    const int lane = lane_index();
    const auto pair = [](int row, int column) {
        const u32 first = 1 + 64 * row + column;
        return first | (first + 1) << 16;
    };
    for (int j = 0; j < 4; ++j) {
        const int row = lane % 16, chunk = 2 * j + lane / 16;
        const int y = lane / 4, x = 16 * j + lane % 4 * 2;
        store_matrix(shared.a + row * 128 + (chunk ^ row % 8) * 16, pair(y, x), pair(y + 8, x), pair(y, x + 8),
                     pair(y + 8, x + 8));
    }
    store_staged(arguments, shared);
}

/// The same numbers and box, staged as the transposed matrix is in registers.
inline __global__ void stage_transposed_and_store(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    const int lane = lane_index();
    const auto pair = [](int row, int column) {
        const u32 first = 1 + 64 * row + column;
        return first | (first + 64) << 16;
    };
    for (int j = 0; j < 4; ++j) {
        const int row = lane % 8 + lane / 16 * 8, chunk = 2 * j + lane / 8 % 2;
        const int y = lane % 4 * 2, x = 16 * j + lane / 4;
        store_matrix_transposed(shared.a + row * 128 + (chunk ^ row % 8) * 16, pair(y, x), pair(y, x + 8),
                                pair(y + 8, x), pair(y + 8, x + 8));
    }
    store_staged(arguments, shared);
}

/// Two blocks load half of a box each and give it to both, which write down what has arrived, byte for byte.
inline __global__ void share_box(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    int budget = wait_budget;
    const int rank = block_rank();
    if (thread_index() == 0) {
        barrier_init(shared.full, 1);
        barrier_init_fence();
        barrier_arrive_expect(shared.full, 64 * 128);
    }
    sync_block();
    sync_cluster();
    if (thread_index() == 0) {
        tma_load_multicast(shared.a + rank * 32 * 128, arguments.a, shared.full, arguments.x, arguments.y + 32 * rank,
                           0, 3);
    }
    barrier_wait(shared.full, 0, {budget, BarrierName::full, 0});
    const auto* arrived = reinterpret_cast<const float*>(shared.a);
    for (int i = thread_index(); i < 64 * 32; i += 128) {
        store_global(arguments.out + rank * 64 * 32 + i, load_shared(arrived[i]));
    }
    sync_cluster();
}

/// A warp copies every x-th number, from the y-th on, as long as there are any, and zeros what it does not copy to. The
/// copies add their arrivals to the barrier's own one, without which the phase is not complete.
inline __global__ void copy_numbers(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    auto* to = reinterpret_cast<float*>(shared.a);
    int budget = wait_budget;
    const int lane = lane_index();
    if (lane == 0) {
        barrier_init(shared.full, 1);
        barrier_init_fence();
    }
    sync_warp();
    for (int i = lane; i < 128; i += warp_threads) {
        const int from = arguments.y + i * arguments.x;
        if (from < arguments.count) {
            copy_async(to[i], arguments.in + from);
        } else {
            store_shared(to[i], 0);
        }
    }
    barrier_arrive_after_copies(shared.full);
    sync_warp();
    if (lane == 0) {
        store_global(arguments.words, u64(barrier_test(shared.full, 0)));
        barrier_arrive(shared.full);
    }
    barrier_wait(shared.full, 0, {budget, BarrierName::full, 0});
    for (int i = lane; i < 128; i += warp_threads) store_global(arguments.out + i, load_shared(to[127 - i]));
}

/// Notes the phases of a barrier of two arrivals, bit after bit:
/// - before the first arrival, and between arrivals of its own block;
/// - while bytes and an arrival of the other block are missing;
/// - when everything has arrived.
inline __global__ void complete_phases(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    int budget = wait_budget;
    u64 seen = 0;
    int notes = 0;
    const bool leads = block_rank() == 0 && thread_index() == 0;
    const auto note = [&](u32 parity) { seen |= u64(barrier_test(shared.full, parity)) << notes++; };
    if (thread_index() == 0) {
        barrier_init(shared.full, 2);
        barrier_init_fence();
    }
    sync_block();
    sync_cluster();
    if (leads) {
        note(0);
        note(1);
        barrier_arrive(shared.full);
        note(0);
        barrier_arrive(shared.full);
        note(0);
        note(1);
        barrier_arrive_expect(shared.full, 64 * 128);
        note(1);
        tma_load(shared.a, arguments.a, shared.full, arguments.x, arguments.y, 0);
        note(1);
    }
    sync_warp();
    sync_cluster();
    if (block_rank() == 1 && thread_index() == 0) barrier_arrive_peer(shared.full, 0);
    if (leads) {
        barrier_wait(shared.full, 1, {budget, BarrierName::full, 0});
        note(1);
        note(0);
        store_global(arguments.words, seen);
    }
    sync_warp();
    sync_cluster();
}

/// A wait for a phase that never completes. The time-out names the barrier, and later waits of the thread keep it. Only
/// for the GPU: the emulator ends at the deadlock.
inline __global__ void time_out(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    if (thread_index() == 0) {
        int budget = 1000;
        barrier_init(shared.full, 1);
        barrier_init_fence();
        barrier_wait(shared.full, 0, {budget, BarrierName::work_empty, arguments.x});
        barrier_wait(shared.full, 0, {budget, BarrierName::full, arguments.y});
        store_global(arguments.words, u64(u32(budget)));
    }
    sync_block();
}

/// Every conversion and the fma, of three numbers at a time.
inline __global__ void convert(const __grid_constant__ PrimitiveArguments arguments) {
    for (int i = thread_index(); i < arguments.count; i += 128) {
        const float x = load_global(arguments.in + 3 * i);
        const float y = load_global(arguments.in + 3 * i + 1);
        const float z = load_global(arguments.in + 3 * i + 2);
        store_global(arguments.words + 2 * i, u64(to_bf16(x)) | u64(to_f16(x)) << 16 | u64(pack_bf16(x, y)) << 32);
        store_global(arguments.words + 2 * i + 1, u64(pack_f16(y, x)) | u64(to_f16(z)) << 32 | u64(to_bf16(z)) << 48);
        store_global(arguments.out + 3 * i, fma(x, y, z));
        store_global(arguments.out + 3 * i + 1, from_bf16(to_bf16(x)));
        store_global(arguments.out + 3 * i + 2, from_f16(u16(i)));
    }
}

}  // namespace tilewright::primitives
