// Packed MXFP4 weights as e4m3 along k, before products whose groups have many rows, and a factor of each row: the same
// numbers as the mainloop of packed weights has in registers (src/formats/packed_layout.h has their order).
//
// Bound by memory: a block takes tiles of 64 rows x 128 k, a thread the 16 bytes of one mma fragment, whose results go
// through shared memory so that a row's 128 bytes are stored by eight threads. The next tile is loaded meanwhile, and
// two tiles of shared memory make one wait for a tile.
#pragma once

#include "hopper/ptx/decode_word.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/packed_order.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

inline constexpr int expand_pitch = packed_order_k / 4 + 4;  // words of a row: without bank conflicts
inline constexpr int expand_lanes = packed_order_k / 16;     // that store a row
inline constexpr int expand_rows = quantize_threads / expand_lanes;
static_assert(packed_order_codes == quantize_threads * 16);

struct ExpandShared {
    u32 values[2][packed_order_rows * expand_pitch];
};
static_assert(sizeof(ExpandShared) == expand_shared_bytes);

/// What a thread has of a tile: of two rows that are 8 apart, eight codes of each of two steps of 32 of k, and the four
/// scales of either row.
struct PackedFragment {
    IntQuad codes{};
    u32 scales[2] = {};
};

/// `run_tiles` of one row tile, which a block expands one after another.
struct ExpandRun {
    int group = 0;
    int row_tile = 0;
    int begin = 0;  // k-blocks
    int end = 0;
};

template <int run_tiles>
TILEWRIGHT_DEVICE ExpandRun expand_run(const ExpandArguments& a) {
    const int row_tiles = ceil_div(a.n, packed_order_rows), k_blocks = ceil_div(a.k, packed_order_k);
    const int runs = ceil_div(k_blocks, run_tiles);
    const int tile = block_index() / runs, begin = block_index() % runs * run_tiles;
    return {.group = tile / row_tiles,
            .row_tile = tile % row_tiles,
            .begin = begin,
            .end = min(begin + run_tiles, k_blocks)};
}

/// The first of the thread's two rows in the tile, and its first step of k.
TILEWRIGHT_DEVICE int fragment_row() { return thread_index() / (2 * warp_threads) * 16 + lane_index() / 4; }
TILEWRIGHT_DEVICE int fragment_step() { return thread_index() / warp_threads % 2 * 2; }

TILEWRIGHT_DEVICE PackedFragment load_fragment(const ExpandArguments& a, const ExpandRun& run, int k_block) {
    PackedFragment fragment;
    if (k_block >= run.end) return fragment;
    const u8* const tile = a.tiles + packed_tile_index(a.n, a.k, run.group, run.row_tile, k_block) * a.tile_bytes;
    fragment.codes = load_global(reinterpret_cast<const IntQuad*>(tile) + thread_index());
    const u32* const scales = reinterpret_cast<const u32*>(tile + packed_order_codes) + row_place(fragment_row());
    fragment.scales[0] = load_global(scales);
    fragment.scales[1] = load_global(scales + 1);
    return fragment;
}

TILEWRIGHT_DEVICE void decode_fragment(const PackedFragment& fragment, u32* values) {
    u32* const to = values + fragment_row() * expand_pitch + lane_index() % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int below = i % 2, step = fragment_step() + i / 2;
        const u32 scale = fragment.scales[below] >> step * 8 & 0xFFU;
        const DecodedWord decoded = decode_word(u32(fragment.codes.values[i]), scale);
        u32* const at = to + below * 8 * expand_pitch + step * 8;
        store_shared(at[0], decoded.values[0]);
        store_shared(at[4], decoded.values[1]);
    }
}

/// The rows of the matrix alone, and of k what the rows have room for: zeros behind its end.
TILEWRIGHT_DEVICE void store_rows(const ExpandArguments& a, const ExpandRun& run, int k_block, const u32* values) {
    const int lane = thread_index() % expand_lanes, column = k_block * packed_order_k + lane * 16;
    if (column >= a.to_row_stride) return;
#pragma unroll
    for (int first = 0; first < packed_order_rows; first += expand_rows) {
        const int in_tile = first + thread_index() / expand_lanes, row = run.row_tile * packed_order_rows + in_tile;
        if (row >= a.n) return;
        const u32& from = values[in_tile * expand_pitch + lane * 4];
        u8* const to = a.to + (i64(run.group) * a.n + row) * a.to_row_stride + column;
        store_global(reinterpret_cast<IntQuad*>(to), load_shared(reinterpret_cast<const IntQuad&>(from)));
    }
}

/// By the blocks of the first k.
TILEWRIGHT_DEVICE void store_factors(const ExpandArguments& a, const ExpandRun& run) {
    const int row = run.row_tile * packed_order_rows + thread_index();
    if (run.begin != 0 || thread_index() >= packed_order_rows || row >= a.n) return;
    const i64 rows = i64(run.group) * ceil_div(a.n, packed_order_rows) * packed_order_rows;
    const float factor = load_global(reinterpret_cast<const float*>(a.rows + (rows + row) * 8));
    store_global(a.factors + i64(run.group) * a.n + row, factor);
}

template <int run_tiles>
__global__ void __launch_bounds__(quantize_threads, 4) expand_weights(const __grid_constant__ ExpandArguments a) {
    auto& shared = shared_memory<ExpandShared>();
    const ExpandRun run = expand_run<run_tiles>(a);
    PackedFragment fragment = load_fragment(a, run, run.begin);
    store_factors(a, run);
    for (int k_block = run.begin; k_block < run.end; ++k_block) {
        const PackedFragment next = load_fragment(a, run, k_block + 1);
        u32* const values = shared.values[k_block % 2];
        decode_fragment(fragment, values);
        sync_block();
        store_rows(a, run, k_block, values);
        fragment = next;
    }
}

}  // namespace tilewright::hopper
