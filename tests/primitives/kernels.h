// Small kernels, each for one thing that the emulator claims about the hardware: swizzle, descriptors and fragments
// (`multiply_box`), stmatrix and the clipping of stores (`stage_and_store`). Plain device code: the emulator and NVRTC
// compile it, and both must write the same bits.
#pragma once

#include "hopper/ptx.h"

namespace tilewright::primitives {

using namespace hopper;

struct PrimitiveArguments {
    TensorMap a;  // e4m3 (k, row, 1), boxes of 128 x 64, swizzled
    TensorMap b;  // e4m3 (k, row, 1), boxes of 128 x 64, swizzled
    TensorMap d;  // 16-bit (column, row, 1), boxes of 64 x 16, swizzled
    float* out;   // multiply_box: [128 threads, 32]
    int x;        // where the box begins
    int y;
};

struct PrimitiveShared {
    alignas(1024) u8 a[64 * 128];
    alignas(1024) u8 b[64 * 128];
    Barrier full;
};

/// 64 x 64 x 128 from (x, y) of both operands, which may lie outside: each thread's fragment goes to `out`.
inline __global__ void multiply_box(const __grid_constant__ PrimitiveArguments arguments) {
    auto& shared = shared_memory<PrimitiveShared>();
    int patience = 0;
    if (thread_index() == 0) {
        barrier_init(shared.full, 1);
        barrier_init_fence();
        barrier_arrive_expect(shared.full, 2 * 64 * 128);
        tma_load(shared.a, arguments.a, shared.full, arguments.x, arguments.y, 0);
        tma_load(shared.b, arguments.b, shared.full, arguments.x, arguments.y, 0);
    }
    sync_block();
    barrier_wait(shared.full, 0, {patience, BarrierName::full, 0});
    float d[32];
    const MatrixDescriptor a = matrix_descriptor(shared.a), b = matrix_descriptor(shared.b);
    pin(d);
    wgmma_fence();
    for (int i = 0; i < 4; ++i) wgmma<64, Storage::e4m3, Storage::e4m3>(d, a + 2 * i, b + 2 * i, i > 0);
    wgmma_commit();
    wgmma_wait<0>();
    pin(d);
    for (int i = 0; i < 32; ++i) store_global(arguments.out + thread_index() * 32 + i, d[i]);
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
    fence_async_proxy();
    sync_warp();
    if (lane != 0) return;
    tma_store(arguments.d, shared.a, arguments.x, arguments.y, 0);
    tma_store_commit();
    tma_store_wait();
}

}  // namespace tilewright::primitives
