// Expands packed weights to K-major operands of the tensor core, ahead of products whose groups have many rows. MXFP4
// becomes e4m3 or bf16 with a factor per row; NVFP4 becomes bf16. The numbers equal those in the registers of the
// mainloop for packed weights (src/formats/packed_layout.h has their order).
//
// The kernel is bound by memory. A block expands tiles of 64 rows x 128 k, a thread the 16 bytes of one mma fragment.
// Results go through shared memory, so that adjacent threads store a row. The next tile is loaded at the same time, and
// with two tiles of shared memory there is one wait per tile.
#pragma once

#include "hopper/pack/packed_order.h"
#include "hopper/ptx/decode_pairs.h"
#include "hopper/ptx/decode_word.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

/// Words from row to row, without bank conflicts.
constexpr int expand_pitch(Expansion weights) { return packed_k * expanded_bytes(weights) / 4 + 4; }
/// Threads that store a row.
constexpr int expand_lanes(Expansion weights) { return packed_k * expanded_bytes(weights) / 16; }
static_assert(packed_code_bytes == quantize_threads * 16);

template <Expansion weights>
struct ExpandShared {
    u32 values[2][packed_rows * expand_pitch(weights)];
};
static_assert(sizeof(ExpandShared<Expansion::mxfp4_to_e4m3>) == shared_bytes(Expansion::mxfp4_to_e4m3));
static_assert(sizeof(ExpandShared<Expansion::nvfp4_to_bf16>) == shared_bytes(Expansion::nvfp4_to_bf16));

/// k-elements per scale.
constexpr int expanded_scale_k(Expansion weights) { return weights == Expansion::nvfp4_to_bf16 ? 16 : 32; }

/// A thread's part of a tile: two rows that are 8 apart. It has eight values of each of two steps of 32 k-elements,
/// which are a box of bf16. It also has one word of scales per row: MXFP4's four, or NVFP4's of these steps.
struct PackedFragment {
    IntQuad codes{};
    ScaleWords scales{};
};

/// `run_tiles` k-blocks of one row tile, which a block expands one after another.
struct ExpandRun {
    int group = 0;
    int row_tile = 0;
    int begin = 0;  // first k-block
    int end = 0;
};

template <int run_tiles>
TILEWRIGHT_DEVICE ExpandRun expand_run(const ExpandArguments& a) {
    const int row_tiles = ceil_div(a.n, packed_rows), k_blocks = ceil_div(a.k, packed_k);
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

template <Expansion weights>
TILEWRIGHT_DEVICE PackedFragment load_fragment(const ExpandArguments& a, const ExpandRun& run, int k_block) {
    PackedFragment fragment;
    if (k_block >= run.end) return fragment;
    const u8* const tile = a.tiles + packed_tile_index(a.n, a.k, run.group, run.row_tile, k_block) * a.tile_bytes;
    fragment.codes = load_global(reinterpret_cast<const IntQuad*>(tile) + thread_index());
    constexpr int words = packed_k / expanded_scale_k(weights) / 4;  // per row
    const int box = words == 1 ? 0 : fragment_step() / 2;
    const u32* const scales =
        reinterpret_cast<const u32*>(tile + packed_code_bytes) + row_place(fragment_row()) * words + box;
    fragment.scales = {{load_global(scales), load_global(scales + words)}};
    return fragment;
}

TILEWRIGHT_DEVICE void decode_to_e4m3(const PackedFragment& fragment, u32* values) {
    constexpr int pitch = expand_pitch(Expansion::mxfp4_to_e4m3);
    u32* const to = values + fragment_row() * pitch + lane_index() % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int below = i % 2, step = fragment_step() + i / 2;
        const u32 scale = fragment.scales.values[below] >> step * 8 & 0xFFU;
        const DecodedWord decoded = decode_word(u32(fragment.codes.values[i]), scale);
        u32* const at = to + below * 8 * pitch + step * 8;
        store_shared(at[0], decoded.values[0]);
        store_shared(at[4], decoded.values[1]);
    }
}

template <Expansion weights>
TILEWRIGHT_DEVICE void decode_to_bf16(const PackedFragment& fragment, u32* values) {
    constexpr int pitch = expand_pitch(weights);
    u32* const to = values + fragment_row() * pitch + lane_index() % 4;
    const Bf16Scales<expanded_scale_k(weights)> scales(fragment.scales, fragment_step() / 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int below = i % 2;
        DecodedPairs decoded = decode_pairs(u32(fragment.codes.values[i]));
        scales.multiply(decoded, below, i / 2);
        u32* const at = to + below * 8 * pitch + (fragment_step() + i / 2) * 16;
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) store_shared(at[4 * pair], decoded.pairs[pair]);
    }
}

/// Stores only rows that the matrix has, with as many k-elements as the rows have memory for: zeros after the end of k.
template <Expansion weights>
TILEWRIGHT_DEVICE void store_rows(const ExpandArguments& a, const ExpandRun& run, int k_block, const u32* values) {
    constexpr int lanes = expand_lanes(weights), rows = quantize_threads / lanes;
    const int lane = thread_index() % lanes;
    const i64 column = (i64(k_block) * lanes + lane) * 16;  // in bytes
    if (column >= a.to_row_bytes) return;
#pragma unroll
    for (int first = 0; first < packed_rows; first += rows) {
        const int in_tile = first + thread_index() / lanes, row = run.row_tile * packed_rows + in_tile;
        if (row >= a.n) return;
        const u32& from = values[in_tile * expand_pitch(weights) + lane * 4];
        u8* const to = a.to + (i64(run.group) * a.n + row) * a.to_row_bytes + column;
        store_global(reinterpret_cast<IntQuad*>(to), load_shared(reinterpret_cast<const IntQuad&>(from)));
    }
}

/// Called by the blocks that expand the first k-blocks.
TILEWRIGHT_DEVICE void store_factors(const ExpandArguments& a, const ExpandRun& run) {
    const int row = run.row_tile * packed_rows + thread_index();
    if (run.begin != 0 || thread_index() >= packed_rows || row >= a.n) return;
    const i64 rows = i64(run.group) * ceil_div(a.n, packed_rows) * packed_rows;
    const float factor = load_global(reinterpret_cast<const float*>(a.rows + (rows + row) * 8));
    store_global(a.factors + i64(run.group) * a.n + row, factor);
}

template <Expansion weights, int run_tiles>
__global__ void __launch_bounds__(quantize_threads, 4) expand_weights(const __grid_constant__ ExpandArguments a) {
    auto& shared = shared_memory<ExpandShared<weights>>();
    const ExpandRun run = expand_run<run_tiles>(a);
    PackedFragment fragment = load_fragment<weights>(a, run, run.begin);
    if constexpr (weights != Expansion::nvfp4_to_bf16) store_factors(a, run);
    for (int k_block = run.begin; k_block < run.end; ++k_block) {
        const PackedFragment next = load_fragment<weights>(a, run, k_block + 1);
        u32* const values = shared.values[k_block % 2];
        if constexpr (weights == Expansion::mxfp4_to_e4m3) {
            decode_to_e4m3(fragment, values);
        } else {
            decode_to_bf16<weights>(fragment, values);
        }
        sync_block();
        store_rows<weights>(a, run, k_block, values);
        fragment = next;
    }
}

}  // namespace tilewright::hopper
