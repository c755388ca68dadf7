// One matrix product for Hopper in one file: D = (A scales_a) (B scales_b)^T. docs/one_kernel.md is the commentary.
//
// A [m, k] and B [n, k] are e4m3, contiguous along k. A has an f32 scale per row and 128 elements of k, and B has one
// per 128 rows and 128 elements of k. D [m, n] is bf16, with the bits of the library's kernel for tiles of 128x128.
// Nothing is hidden but instructions: ptx.h declares a function for each. The host's part is call.h.
#pragma once

#include "base/math.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::learn {

using namespace hopper;

inline constexpr int tile_rows = 128, tile_columns = 128;  // of D: what a block computes at a time
inline constexpr int k_block = 128;                        // elements of k, and bytes: the width of the swizzle
inline constexpr int stages = 5;                           // k-blocks in shared memory. D has the place of a sixth.
inline constexpr int warpgroups = 2, warpgroup_rows = 64;  // that multiply, and the rows of each: one wgmma
inline constexpr int half_columns = 64;                    // of D in a TMA store: 128 bytes, as wide as the swizzle
inline constexpr int raster_width = 8;                     // rows of tiles, see `work_tile`
inline constexpr int threads = (1 + warpgroups) * 128;     // the warpgroup that loads and stores comes first
inline constexpr int thread_sums = tile_columns / 2;       // of 64 x 128 in a warpgroup. ptx.h shows which ones.

struct Arguments {
    TensorMap a, b;      // (k, row) in boxes of 128 x 128, swizzled: zeros outside of the matrix
    TensorMap a_scales;  // (row + k-block * a_scale_step, 0) in boxes of 128 x 1
    TensorMap d;         // (column, row) in boxes of 64 x 64, swizzled: no writes outside of the matrix
    const float* b_scales;
    i64 b_scale_row_step, b_scale_step;            // elements to the next 128 rows, and to the next k-block
    int a_scale_step, row_tiles, tiles, k_blocks;  // the tiles are those of D
    u64* report;                                   // in memory of the host. It stays 0 unless a wait times out.
};

struct Shared {  // Swizzled boxes begin at multiples of 1024 bytes, because TMA swizzles by address.
    alignas(1024) u8 a[stages][tile_rows * k_block];
    alignas(1024) u8 b[stages][tile_columns * k_block];
    alignas(1024) u8 d[warpgroups][tile_columns / half_columns][warpgroup_rows * half_columns * 2];
    alignas(128) float a_scales[stages][tile_rows];
    float b_scale[stages];
    Barrier full[stages];        // load warp to consumers: the k-block is in shared memory
    Barrier empty[stages];       // consumers to load warp: the k-block has been read
    Barrier staged[warpgroups];  // consumers to store warp: the warpgroup's part of D is in shared memory
    Barrier stored[warpgroups];  // store warp to consumers: it has been read
    Barrier ended;               // consumers to load warp: no more waits
};

/// A warp's position in the ring of stages. Phases alternate between 0 and 1, and `phase` is the one to wait for. A
/// producer begins with 1, the phase that precedes the first and counts as complete: every stage is empty.
struct PipelineState {
    int stage;
    u32 phase;
    constexpr void advance() {
        if (++stage < stages) return;
        stage = 0;
        phase ^= 1;
    }
};

// ---- Tiles: a block takes every block_count()-th, and each of its warps computes the list for itself.

struct WorkTile {
    int row, column;
};

/// Tiles are taken column by column, in rasters of eight rows of tiles. So tiles that run at the same time almost form
/// a square. It needs the fewest rows of A and B, and these stay in L2.
TILEWRIGHT_DEVICE WorkTile work_tile(int index, const Arguments& arguments) {
    const int tiles_in_raster = arguments.tiles / arguments.row_tiles * raster_width;
    const int first = index / tiles_in_raster * raster_width, rest = index % tiles_in_raster;
    const int rows = min(arguments.row_tiles - first, raster_width);
    return {.row = (first + rest % rows) * tile_rows, .column = rest / rows * tile_columns};
}

// ---- Warp 0 loads.

/// After a time-out, ends the consumers' waits for `full`. These have no limit, because more code there costs time even
/// if it never runs. Both phases are completed in turn. The barriers are reset, because bytes may still arrive.
TILEWRIGHT_DEVICE void release_consumers(Shared& shared) {
    while (!barrier_test(shared.ended, 0)) {
        for (Barrier& full : shared.full) barrier_reset(full, 1);
        barrier_init_fence();
        pause(1000);
        for (Barrier& full : shared.full) barrier_arrive(full);
        pause(1000);
    }
}

/// Fills the ring. All lanes run the loop and one issues, so that the state is in uniform registers, as TMA wants it.
TILEWRIGHT_DEVICE void load(Shared& shared, const Arguments& arguments, int& budget) {
    constexpr int bytes = (tile_rows + tile_columns) * k_block + tile_rows * int(sizeof(float));
    PipelineState ring{.stage = 0, .phase = 1};
    for (int index = block_index(); index < arguments.tiles; index += block_count()) {
        const WorkTile work = work_tile(index, arguments);
        const float* b_scales = arguments.b_scales + work.column / tile_columns * arguments.b_scale_row_step;
        for (int i = 0; i < arguments.k_blocks; ++i, ring.advance()) {
            const int stage = ring.stage;
            Barrier& full = shared.full[stage];
            barrier_wait(shared.empty[stage], ring.phase, {budget, BarrierName::empty, stage});
            if (is_elected() && budget >= 0) {
                // cp.async copies B's scale, because TMA copies 16 bytes at least. The copy adds an arrival to the
                // phase, which it can as long as another arrival is missing: the next one.
                copy_async(shared.b_scale[stage], b_scales + i * arguments.b_scale_step);
                barrier_arrive_after_copies(full);
                barrier_arrive_expect(full, bytes);
                tma_load(shared.a[stage], arguments.a, full, i * k_block, work.row, 0);
                tma_load(shared.b[stage], arguments.b, full, i * k_block, work.column, 0);
                tma_load(shared.a_scales[stage], arguments.a_scales, full, i * arguments.a_scale_step + work.row, 0, 0);
            }
            sync_warp();
        }
    }
    // Waits until every stage has been read, and so notices that a last k-block never arrives.
    for (int i = 0; i < stages; ++i, ring.advance()) {
        barrier_wait(shared.empty[ring.stage], ring.phase, {budget, BarrierName::empty, ring.stage});
    }
    if (budget < 0 && lane_index() == 0) release_consumers(shared);
}

// ---- Warp 1 stores.

/// Copies D from shared memory. All stores at once, from all blocks, would delay the loads of the next tiles. So they
/// are spread over half of a tile's time.
TILEWRIGHT_DEVICE void store(Shared& shared, const Arguments& arguments, int& budget) {
    constexpr int pace = 38;  // ns per store and k-block, which takes 512 clocks at 1.7 GHz. A tile has four stores.
    const bool issues = lane_index() == 0;  // one lane for all, because a thread waits only for its own stores
    u32 phase = 0;
    for (int index = block_index(); index < arguments.tiles; index += block_count(), phase ^= 1) {
        const WorkTile work = work_tile(index, arguments);
        for (int warpgroup = 0; warpgroup < warpgroups; ++warpgroup) {
            barrier_wait(shared.staged[warpgroup], phase, {budget, BarrierName::staged, warpgroup});
            for (int half = 0; half < tile_columns / half_columns; ++half) {
                if (issues) {
                    tma_store(arguments.d, shared.d[warpgroup][half], work.column + half * half_columns,
                              work.row + warpgroup * warpgroup_rows, 0);
                    tma_store_commit();
                }
                if (index + block_count() < arguments.tiles) pause(arguments.k_blocks * pace);
            }
            if (issues) tma_store_wait_read();
            if (issues) barrier_arrive(shared.stored[warpgroup]);
            sync_warp();
        }
    }
    if (issues) tma_store_wait();
}

// ---- Warps 4 to 11 multiply. While a warpgroup promotes, the tensor core works for the other.

/// Rounds a warpgroup's sums to bf16 and writes them for TMA. stmatrix takes 16 rows and 16 columns of a warp at a
/// time. The swizzle puts chunk c of a row r, 16 bytes, at chunk c ^ r % 8.
TILEWRIGHT_DEVICE void stage_sums(Shared& shared, int warpgroup, const float (&sums)[thread_sums]) {
    const int lane = lane_index(), row = warp_index() % 4 * 16 + lane % 16;
#pragma unroll
    for (int column = 0; column < tile_columns; column += 16) {
        const float* sum = &sums[column / 2];
        const int chunk = column % half_columns / 8 + lane / 16;
        store_matrix(&shared.d[warpgroup][column / half_columns][row * half_columns * 2 + (chunk ^ row % 8) * 16],
                     pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3]), pack_bf16(sum[4], sum[5]),
                     pack_bf16(sum[6], sum[7]));
    }
    fence_async_proxy();  // otherwise TMA may not see the writes
    sync_warp();
    if (lane == 0) barrier_arrive(shared.staged[warpgroup]);
}

TILEWRIGHT_DEVICE void multiply(Shared& shared, const Arguments& arguments, int& budget) {
    const int warpgroup = warp_index() / 4 - 1;
    const int row = warpgroup * warpgroup_rows + warp_index() % 4 * 16 + lane_index() / 4;  // and row + 8
    const MatrixDescriptor a = matrix_descriptor(shared.a[0] + warpgroup * warpgroup_rows * k_block);
    const MatrixDescriptor b = matrix_descriptor(shared.b[0]);
    PipelineState ring{.stage = 0, .phase = 0};
    float sums[thread_sums], partial[thread_sums];

    const auto multiply_k_block = [&] {
        const int stage = ring.stage;
        barrier_wait_watched(shared.full[stage], ring.phase, BarrierName::full, stage);
        const float b_scale = load_shared(shared.b_scale[stage]);
        const float a_scales[2]{load_shared(shared.a_scales[stage][row]), load_shared(shared.a_scales[stage][row + 8])};
        pin(partial);
        wgmma_fence();
#pragma unroll
        for (int byte = 0; byte < k_block; byte += 32) {
            const int offset = (stage * tile_rows * k_block + byte) / 16;  // descriptors count in 16 bytes
            wgmma<tile_columns, ValueFormat::e4m3, ValueFormat::e4m3>(partial, a + offset, b + offset, byte > 0);
        }
        wgmma_commit();
        const float scales[2]{a_scales[0] * b_scale, a_scales[1] * b_scale};
        wgmma_wait<0>();
        pin(partial);
        if (lane_index() == 0) barrier_arrive(shared.empty[stage]);  // early, so that the stage is soon filled again
        ring.advance();
        // The promotion. Tensor cores add fp8 products with fewer bits than fp32 has, so they add only 128 at a time.
#pragma unroll
        for (int below = 0; below < 2; ++below) {  // in turn, so that a scale is read from its register less often
#pragma unroll
            for (int i = 0; i < thread_sums / 2; ++i) {
                const int index = i / 2 * 4 + below * 2 + i % 2;
                sums[index] = fma(partial[index], scales[below], sums[index]);
            }
        }
    };

    u32 stored_phase = 1;
    for (int index = block_index(); index < arguments.tiles; index += block_count(), stored_phase ^= 1) {
        for (float& sum : sums) sum = 0;
        int left = arguments.k_blocks;
        // In fours: the compiler moves a wait into the promotion ahead of it, but not across the branch of a loop.
        for (; left >= 4; left -= 4) {
#pragma unroll
            for (int i = 0; i < 4; ++i) multiply_k_block();
        }
#pragma unroll 1
        for (; left > 0; --left) multiply_k_block();
        barrier_wait(shared.stored[warpgroup], stored_phase, {budget, BarrierName::stored, warpgroup});
        stage_sums(shared, warpgroup, sums);
    }
    if (lane_index() == 0) barrier_arrive(shared.ended);
}

// ---- The kernel.

__global__ void __launch_bounds__(threads, 1) block_scaled_gemm(const __grid_constant__ Arguments arguments) {
    auto& shared = shared_memory<Shared>();
    const int warp = warp_index();
    if (thread_index() == 0) {
        for (Barrier& full : shared.full) barrier_init(full, 1);
        for (Barrier& empty : shared.empty) barrier_init(empty, warpgroups * 4);  // one arrival per consumer warp
        for (Barrier& staged : shared.staged) barrier_init(staged, 4);
        for (Barrier& stored : shared.stored) barrier_init(stored, 1);
        barrier_init(shared.ended, warpgroups * 4);
        barrier_init_fence();
    }
    sync_block();
    int budget = wait_budget;  // tries of all waits of this thread, some 20 s. Negative after a time-out.
    if (warp < 4) {
        registers_give<40>();  // of the 168 that the launch gives: a consumer has 128 in sums
        if (warp == 0) load(shared, arguments, budget);
        if (warp == 1) store(shared, arguments, budget);
    } else {
        registers_take<232>();
        multiply(shared, arguments, budget);
    }
    if (budget < 0) {  // who waited: the barrier (ptx.h: `budget` names it), block and thread
        const u64 barrier = u64(budget >> 24 & 0x7F) << 48, block = u64(block_index()) << 16;
        store_global(arguments.report, u64(1) << 63 | barrier | block | u64(thread_index()));
    }
}

}  // namespace tilewright::learn
