// The shared memory of a block: the contents of a stage, and the sizes of all arrays of block/shared_memory.h.
#pragma once

#include "hopper/tile/output_tiling.h"

namespace tilewright::hopper {

inline constexpr int shared_bytes_limit = 232448;  // Per block on sm_90 (CUDA C++ programming guide, 17.7).
// Per SM. A block takes 1 KB more than it requests (same section).
inline constexpr int shared_bytes_per_sm = 233472;
inline constexpr int epilogue_scale_slots = 2;   // Tiles whose epilogue scales are loaded ahead.
inline constexpr int scale_chunk_slots = 4;      // Chunks of 128x128 scales that are loaded ahead.
inline constexpr int scale_chunk_k_blocks = 32;  // K-blocks in a chunk: one per lane.
inline constexpr int work_tile_slots = 4;        // Work tiles that the scheduler produces ahead.
inline constexpr int work_tile_words = 8;        // Words per work tile.

/// The bytes that a full barrier waits for, without scales, whichever block loads them.
constexpr int value_bytes_per_stage(const Tile& tile) {
    return mma_a(tile).loaded_bytes() + mma_b(tile).loaded_bytes();
}
/// Bytes of scales that a k-block needs.
constexpr int scale_bytes_per_stage(const Tile& tile) { return mma_a(tile).scale_bytes() + mma_b(tile).scale_bytes(); }

// ---- Numbers of elements of arrays in shared memory; every array has at least one

constexpr int at_least_one(int count) { return max(count, 1); }
/// Scales in a stage. TMA writes to multiples of 128 bytes.
constexpr int mma_a_scales_per_stage(const Tile& tile) {
    const int scales_of_row = mma_a(tile).scales_of_row() * k_blocks_per_scale_copy(tile);
    return at_least_one(scales_mma_rows(tile) ? round_up(tile.shape.m * scales_of_row, 32) : 0);
}
constexpr int mma_b_scales_per_stage(const Tile& tile) {
    return at_least_one(scales_mma_columns(tile) ? round_up(tile.shape.n, 32) * mma_b(tile).scales_of_row() : 0);
}
constexpr int scale_chunk_rows(const Tile& tile) {
    return at_least_one(has_block_scales(tile) ? block_scales_per_k_block(tile) : 0);
}
constexpr int scale_chunk_columns(const Tile& tile) { return has_block_scales(tile) ? scale_chunk_k_blocks : 1; }
constexpr int epilogue_row_scales(const Tile& tile) { return has_epilogue_scales(tile) ? tile.shape.m : 1; }
constexpr int epilogue_column_scales(const Tile& tile) { return has_epilogue_scales(tile) ? tile.shape.n : 1; }
/// Barriers of staged data: one per warpgroup. D of f32: one per stage.
constexpr int staged_barriers(const Tile& tile) { return stores_f32(tile) ? tile.stages : tile.shape.warpgroups; }
constexpr int work_slots(const Tile& tile) { return has_scheduler(tile) ? work_tile_slots : 1; }
/// Barriers of k-blocks in which a group ends: one per stage.
constexpr int landed_barriers(const Tile& tile) { return is_k_grouped(tile) ? tile.stages : 0; }

/// sizeof(Shared<tile>), which gemm.h asserts: its members in order, each at a multiple of its alignment.
constexpr int shared_bytes(const Tile& tile) {
    constexpr int word = 4, barrier = 8;
    const int warpgroups = tile.shape.warpgroups;
    int bytes = round_up(tile.stages * mma_a(tile).value_bytes(), tile_alignment);
    bytes += tile.stages * mma_b(tile).value_bytes();
    bytes += warpgroups * staging_bytes(tile);
    bytes = round_up(bytes, 128) + tile.stages * mma_a_scales_per_stage(tile) * word;
    bytes = round_up(bytes, 128) + tile.stages * mma_b_scales_per_stage(tile) * word;
    bytes = round_up(bytes, 16) + scale_chunk_slots * scale_chunk_rows(tile) * scale_chunk_columns(tile) * word;
    bytes += epilogue_scale_slots * epilogue_row_scales(tile) * word;
    bytes = round_up(bytes, 8) + epilogue_scale_slots * epilogue_column_scales(tile) * word;
    bytes = round_up(bytes, barrier);
    bytes += (staged_barriers(tile) + warpgroups) * barrier;
    bytes += 2 * (tile.stages + epilogue_scale_slots + scale_chunk_slots + work_slots(tile)) * barrier;
    bytes += barrier;
    bytes += work_slots(tile) * work_tile_words * word;
    return round_up(round_up(bytes, barrier) + (2 + landed_barriers(tile)) * barrier, tile_alignment);
}

}  // namespace tilewright::hopper
