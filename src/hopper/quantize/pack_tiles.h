// Packing FP4 weights, the kernels after pack_rows.h: a block writes a tile of 64 rows x 128 k, then others what is
// left: the header, the scales of rows that are kept, and zeros between sections.
#pragma once

#include "hopper/quantize/pack_rows.h"

namespace tilewright::hopper {

inline constexpr int pack_tile_words = pack_rows * pack_k / 8;  // of codes
inline constexpr int pack_row_words = pack_k / 8 + 4;           // of a row in shared memory: without bank conflicts

struct PackShared {
    u32 codes[pack_rows * pack_row_words];
    int windows[pack_rows];  // of wide rows; 0 of others
};
static_assert(sizeof(PackShared) == pack_shared_bytes);

/// Tiles of one row tile that a block writes one after another.
struct PackRun {
    int group = 0;
    int row_tile = 0;
    int begin = 0;  // k-blocks
    int end = 0;

    TILEWRIGHT_DEVICE int first_row() const { return row_tile * pack_rows; }
};

TILEWRIGHT_DEVICE PackRun pack_run(const PackArguments& a) {
    const int row_tiles = ceil_div(a.n, pack_rows), k_blocks = ceil_div(a.k, pack_k);
    const int runs = ceil_div(k_blocks, pack_run_tiles);
    const int rest = block_index() % (row_tiles * runs), begin = rest % runs * pack_run_tiles;
    return {.group = block_index() / (row_tiles * runs),
            .row_tile = rest / runs,
            .begin = begin,
            .end = min(begin + pack_run_tiles, k_blocks)};
}

TILEWRIGHT_DEVICE u8* tile_at(const PackArguments& a, const PackRun& run, int k_block) {
    return a.out + a.tiles_at + packed_tile_index(a.n, a.k, run.group, run.row_tile, k_block) * a.tile_bytes;
}

/// What a thread has of a tile: 32 codes of a row, and their scales (NVFP4: two).
struct PackInput {
    PackBlock codes{};
    int scales = 0;
};

template <PackSpec spec>
TILEWRIGHT_DEVICE PackInput load_input(const PackArguments& a, const PackRun& run, int k_block) {
    const int row = run.first_row() + thread_index() / pack_blocks;
    const int column = k_block * pack_blocks + thread_index() % pack_blocks;
    PackInput input;
    if (row >= a.n || k_block >= run.end || column >= ceil_div(a.k, pack_block)) return input;
    input.codes = load_block<spec>(a, run.group, row, column);
    if constexpr (spec.mxfp4) {
        input.scales = load_scale(a, run.group, row, column);
    } else {
        const auto scale = [&](int at) { return packed_nvfp4_scale(load_scale(a, run.group, row, at)); };
        input.scales = scale(2 * column);
        if (2 * column + 1 < ceil_div(a.k, nvfp4_columns)) input.scales |= scale(2 * column + 1) << 8;
    }
    return input;
}

/// Eight codes of a row's 32 of k, as lane t of a quad takes them (packed_place), for fp8: nibble j is the code of
/// k = 4 t + j or 16 + 4 t + j - 4, but its sign bit is where PRMT's results have their signs: that of nibble j in byte
/// j % 4, at bit 7 or, of the upper four, at bit 3.
TILEWRIGHT_DEVICE u32 packed_word_fp8(const u32* step, int t) {
    const auto word = [&](int i) { return u32(load_shared(reinterpret_cast<const int&>(step[i]))); };
    const u32 first = word(t / 2), second = word(2 + t / 2);
    const u32 half = u32(t % 2) * 0x2222U;  // selects the upper bytes of each
    const u32 codes = permute_bytes(first, second, 0x5410U + half);
    // Each byte twice: the sign of its low nibble goes to the first, that of its high nibble to the second.
    const u32 lower = permute_bytes(first, 0, 0x1100U + half), upper = permute_bytes(second, 0, 0x1100U + half);
    return (codes & 0x7777'7777U) | (lower << 4 & 0x0080'0080U) | (lower & 0x8000'8000U) | (upper & 0x0008'0008U) |
           (upper >> 4 & 0x0800'0800U);
}

/// The same for bf16: half words are pairs of k, and the bits of a pair's two codes are where feed_bf16.h shifts them
/// from.
TILEWRIGHT_DEVICE u32 packed_word_bf16(const u32* step, int t) {
    constexpr u32 sign = 0x0008'0008U, number = 0x0007'0007U;
    const auto pair = [&](int i) {
        const u32 codes = u32(load_shared(reinterpret_cast<const int&>(step[i]))) >> t * 8;
        return (codes & 0xFU) | (codes & 0xF0U) << 12;
    };
    const u32 a = pair(0), b = pair(1), c = pair(2), d = pair(3);
    return (a & number) << 6 | (a & sign) << 12 | (b & number) | (b & sign) << 6 | (c & number) << 10 |
           permute_bytes(c & sign, 0, 0x1032U) | (d & 0x0003'0003U) << 4 | (d & 0x0004'0004U) << 12 | (d & sign) << 10;
}

template <PackSpec spec>
TILEWRIGHT_DEVICE u32 packed_word(const u32* step, int t) {
    if constexpr (spec.mxfp4 && spec.for_fp8) return packed_word_fp8(step, t);
    return packed_word_bf16(step, t);
}

/// 16 bytes of a thread: two rows that are 8 apart, two steps of 32 of k.
template <PackSpec spec>
TILEWRIGHT_DEVICE void store_codes(const PackShared& shared, u8* to) {
    const int thread = thread_index(), half = thread / warp_threads % 2, lane = lane_index();
    const int row = thread / (2 * warp_threads) * 16 + lane / 4, t = lane % 4;
    const auto word = [&](int below, int step) {
        return int(packed_word<spec>(&shared.codes[(row + below) * pack_row_words + (2 * half + step) * 4], t));
    };
    store_global(reinterpret_cast<IntQuad*>(to) + thread, IntQuad{{word(0, 0), word(8, 0), word(0, 1), word(8, 1)}});
}

/// The byte of a block's scale. `top`: what its exponent is relative to.
template <PackSpec spec>
TILEWRIGHT_DEVICE int scale_byte(int scale, int exponent, bool wide, int top, int window) {
    constexpr int unused = spec.for_fp8 ? 2 * pack_top_exponent : 2 * ue8m0_bias - 1;
    if (!spec.for_fp8 && wide) return scale;
    return (exponent == pack_no_exponent ? unused : unused + exponent - top) | window << 4;
}

/// The bytes of the four blocks of a row that has windows.
template <PackSpec spec>
TILEWRIGHT_DEVICE u32 split_bytes(const PackWindows& windows, const int (&exponents)[pack_blocks], int blocks) {
    u32 bytes = 0;
#pragma unroll
    for (int i = 0; i < pack_blocks; ++i) {
        int top = 0;
#pragma unroll
        for (int window = 0; window < pack_blocks; ++window) {
            if (windows.of_block[i] == window) top = windows.top[window];
        }
        const int byte = scale_byte<spec>(0, exponents[i], true, top, windows.of_block[i]);
        bytes |= u32(i < blocks ? byte : 2 * pack_top_exponent) << 8 * i;
    }
    return bytes;
}

/// The exponents of a tile's windows in a row, and of how many.
TILEWRIGHT_DEVICE void store_windows(const PackArguments& a, const PackWindows& windows, bool wide, int row, u8* tops,
                                     PackShared& shared) {
    store_shared(shared.windows[row], wide ? windows.count : 0);
    for (int window = 0; window < a.windows; ++window) {
        int top = window == 0 && !wide ? pack_top_exponent : -128;
#pragma unroll
        for (int i = 0; i < pack_blocks; ++i) {
            if (wide && i == window && i < windows.count) top = windows.top[i] == pack_no_exponent ? 0 : windows.top[i];
        }
        store_global(tops + window * pack_rows + row_place(row), u8(top));
    }
}

/// The scales of a row of MXFP4, and its windows, by the four lanes that have its blocks. `judged`: the second word of
/// its PackedRow. Few rows have windows, and this is executed for every 32 codes: what rows without any need is done
/// first, a byte from each lane.
template <PackSpec spec>
TILEWRIGHT_DEVICE void store_mxfp4_scales(const PackArguments& a, const PackRun& run, int k_block, u32 judged,
                                          const PackInput& input, u8* to, PackShared& shared) {
    const int lane = lane_index(), quad = lane / 4 * 4, row = thread_index() / pack_blocks;
    const int blocks = run.first_row() + row < a.n ? ceil_div(a.k, pack_block) - k_block * pack_blocks : 0;
    const bool exists = lane % 4 < blocks, wide = (judged >> 16 & pack_wide) != 0, split = wide && spec.for_fp8;
    const int exponent = exists ? exponent_of(input.scales, input.codes.any()) : pack_no_exponent;
    const int byte = scale_byte<spec>(input.scales, exponent, wide, int(judged << 16) >> 16, 0);
    u32 bytes = u32(exists ? byte : spec.for_fp8 ? 2 * pack_top_exponent : 0) << lane % 4 * 8;
    bytes |= from_lane(int(bytes), lane ^ 1);
    bytes |= from_lane(int(bytes), lane ^ 2);
    PackWindows windows;
    if (spec.for_fp8 && ballot(split) != 0) {
        int exponents[pack_blocks];
#pragma unroll
        for (int i = 0; i < pack_blocks; ++i) exponents[i] = from_lane(exponent, quad + i);
        if (split) {
            windows = find_windows(exponents);
            bytes = split_bytes<spec>(windows, exponents, blocks);
        }
    }
    if (lane % 4 != 0) return;
    store_global(reinterpret_cast<u32*>(to) + row_place(row), bytes);
    if (a.windows != 0) store_windows(a, windows, wide, row, to + pack_rows * pack_blocks + 16, shared);
}

/// The head of a tile's windows: how many its rows have at most, and which rows are wide. By one thread.
TILEWRIGHT_DEVICE void store_window_head(const PackShared& shared, u8* to) {
    int most = 1;
    u32 wide[2] = {};
    for (int row = 0; row < pack_rows; ++row) {
        const int windows = load_shared(shared.windows[row]);
        most = max(most, windows);
        const u32 bit = windows != 0 ? 1U << (row / 16 * 8 + row % 8) : 0U;
        if (row % 16 < 8) {
            wide[0] |= bit;
        } else {
            wide[1] |= bit;
        }
    }
    u32* const words = reinterpret_cast<u32*>(to);
    store_global(words, u32(most));
    store_global(words + 1, 0U);
    store_global(words + 2, wide[0]);
    store_global(words + 3, wide[1]);
}

/// Eight scales of a row of NVFP4; the four lanes have two each.
TILEWRIGHT_DEVICE void store_nvfp4_scales(const PackInput& input, u8* to) {
    const int quad = lane_index() / 4 * 4, row = thread_index() / pack_blocks;
    u32 words[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        words[i] = u32(from_lane(input.scales, quad + 2 * i)) | u32(from_lane(input.scales, quad + 2 * i + 1)) << 16;
    }
    if (lane_index() % 4 != 0) return;
    u32* const scales = reinterpret_cast<u32*>(to) + row_place(row) * 2;
    store_global(scales, words[0]);
    store_global(scales + 1, words[1]);
}

/// The next tile is loaded while one is written: 16 bytes of codes a thread, so that an SM needs the loads of as many
/// blocks as registers allow.
template <PackSpec spec>
__global__ void __launch_bounds__(quantize_threads, 5) pack_tiles(const __grid_constant__ PackArguments a) {
    auto& shared = shared_memory<PackShared>();
    const PackRun run = pack_run(a);
    const int row = thread_index() / pack_blocks;
    const i64 index = i64(run.group) * ceil_div(a.n, pack_rows) * pack_rows + run.first_row() + row;
    const u32 judged = load_global(reinterpret_cast<const u32*>(a.out + a.rows_at + index * 8 + 4));
    PackInput input = load_input<spec>(a, run, run.begin);
    for (int k_block = run.begin; k_block < run.end; ++k_block) {
        const PackInput next = load_input<spec>(a, run, k_block + 1);
        u8* const to = tile_at(a, run, k_block);
        u8* const scales = to + pack_tile_words * 4;
        u32* const own = &shared.codes[row * pack_row_words + thread_index() % pack_blocks * 4];
        store_shared(reinterpret_cast<Quad&>(*own), __builtin_bit_cast(Quad, input.codes));
        if constexpr (spec.mxfp4) {
            store_mxfp4_scales<spec>(a, run, k_block, judged, input, scales, shared);
        } else {
            store_nvfp4_scales(input, scales);
        }
        sync_block();
        store_codes<spec>(shared, to);
        if (spec.mxfp4 && a.windows != 0 && thread_index() == 0) {
            store_window_head(shared, scales + pack_rows * pack_blocks);
        }
        sync_block();
        input = next;
    }
}

/// All of the first block's threads: bytes [begin, end) become zeros.
TILEWRIGHT_DEVICE void clear(u8* out, i64 begin, i64 end) {
    for (i64 i = begin + thread_index(); i < end; i += quantize_threads) store_global(out + i, u8{0});
}

/// The first block: the header and what is between sections. Each other one: the scales of a row that is kept.
template <PackSpec spec>
__global__ void __launch_bounds__(quantize_threads, 2) pack_rest(const __grid_constant__ PackArguments a) {
    if (block_index() > 0) {
        const i64 kept = load_global(a.kept_rows + block_index() - 1);
        u8* const to = a.out + a.kept_at + 8 + i64(block_index() - 1) * a.kept_row_bytes;
        if (thread_index() < 8) store_global(to + thread_index(), u8(kept >> 8 * thread_index()));
        const int columns = ceil_div(a.k, spec.mxfp4 ? pack_block : nvfp4_columns);
        for (int i = thread_index(); i < int(a.kept_row_bytes) - 8; i += quantize_threads) {
            store_global(to + 8 + i, i < columns ? u8(load_scale(a, int(kept / a.n), int(kept % a.n), i)) : u8{0});
        }
        return;
    }
    const int thread = thread_index();
    if (thread < 32) store_global(reinterpret_cast<u32*>(a.out) + thread, a.header[thread]);
    float* const scales = reinterpret_cast<float*>(a.out + 128);
    for (int i = thread; i < a.tensor_scale_count; i += quantize_threads) {
        store_global(scales + i, load_global(a.tensor_scales + i * a.tensor_scale_stride));
    }
    clear(a.out, 128 + i64(a.tensor_scale_count) * 4, a.rows_at);
    const i64 tiles = i64(a.groups) * ceil_div(a.n, pack_rows) * ceil_div(a.k, pack_k);
    clear(a.out, a.tiles_at + tiles * a.tile_bytes, a.kept_at);
    if (!spec.mxfp4 && a.bytes == a.kept_at) return;
    clear(a.out, a.kept_at + 4, a.kept_at + 8);
    if (thread == 0) store_global(reinterpret_cast<u32*>(a.out + a.kept_at), u32(a.kept));
    clear(a.out, a.kept_at + 8 + a.kept * a.kept_row_bytes, a.bytes);
}

}  // namespace tilewright::hopper
