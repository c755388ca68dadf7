// Packs FP4 weights. A block judges 16 rows of a tile, puts them into shared memory (pack_rows.h), and then writes
// them. Rows of up to some 27,000 codes (NVFP4: 25,000) are read once. Longer rows are judged in parts, which are read
// again. Without `out`, rows are only judged.
#pragma once

#include "hopper/pack/pack_rows.h"

namespace tilewright::hopper {

struct PackShared {
    // The code of the largest scale; wide rows: `wide_top`.
    int tops[pack_strip_rows];
};
static_assert(sizeof(PackShared) == pack_shared_head && pack_shared_head % 16 == 0);
inline constexpr int wide_top = -1;

/// The rows of a block: the rows of one warp of wgmma in a tile.
struct PackStrip {
    int group = 0;
    int row_tile = 0;
    int number = 0;  // in the tile

    TILEWRIGHT_DEVICE int first_row() const { return row_tile * packed_rows + number * pack_strip_rows; }
};

TILEWRIGHT_DEVICE PackStrip pack_strip(const PackArguments& a) {
    constexpr int strips = packed_rows / pack_strip_rows;
    const int row_tiles = ceil_div(a.n, packed_rows), tile = block_index() / strips;
    return {.group = tile / row_tiles, .row_tile = tile % row_tiles, .number = block_index() % strips};
}

template <PackSpec spec>
TILEWRIGHT_DEVICE PackRow pack_row(const PackArguments& a, const PackStrip& strip, int in_strip, u8* staged) {
    const int row = strip.first_row() + in_strip;
    return {.codes = a.codes + strip.group * a.code_group_stride + row * a.code_row_stride,
            .scales = a.scales + strip.group * a.scale_group_stride + row * a.scale_row_stride,
            .exists = row < a.n,
            .staged = staged + in_strip * pack_pitch(a.part, spec.mxfp4)};
}

/// Judges a row and writes the host's byte. The reference of its scales goes to shared memory.
template <PackSpec spec>
TILEWRIGHT_DEVICE void judge(const PackArguments& a, const PackStrip& strip, int in_strip, u8* staged,
                             PackShared& shared) {
    const PackRow row = pack_row<spec>(a, strip, in_strip, staged);
    const JudgedRow judged = judge_row<spec>(a, row);
    const bool wide = spec.mxfp4 && judged.wide(spec.for_fp8 ? fp8_exponent_range : bf16_exponent_range);
    const bool kept = wide || judged.nan() || judged.differing != 0;
    if (lane_index() != 0) return;
    store_shared(shared.tops[in_strip], wide ? wide_top : judged.top());
    const i64 in_group = strip.first_row() + in_strip;
    if (a.out != nullptr) {
        const i64 index = i64(strip.group) * ceil_div(a.n, packed_rows) * packed_rows + in_group;
        u32* const to = reinterpret_cast<u32*>(a.out + a.rows_at + index * 8);
        if (row.exists) {
            store_row<spec>(to, judged, wide, kept);
        } else {
            store_global(reinterpret_cast<u64*>(to), u64{0});
        }
    }
    if (!row.exists) return;
    const int windows = wide ? judged.windows : 0;
    store_global(a.judgements + i64(strip.group) * a.n + in_group, u8(windows | (kept ? judged_kept : 0)));
}

/// The tiles of a part. Consecutive tiles along k are the same number of bytes apart.
struct TilesOfStrip {
    u8* first = nullptr;
    i64 step = 0;
};

TILEWRIGHT_DEVICE TilesOfStrip tiles_of(const PackArguments& a, const PackStrip& strip, PackPart part) {
    const auto at = [&](int k_block) {
        return packed_tile_index(a.n, a.k, strip.group, strip.row_tile, k_block) * a.tile_bytes;
    };
    return {.first = a.out + a.tiles_at + at(part.begin), .step = at(1) - at(0)};
}

/// A warp writes a tile. A lane has 16 bytes of each of the tile's halves: two rows that are 8 apart, two steps of 32
/// k-elements.
template <PackSpec spec>
TILEWRIGHT_DEVICE void write_codes(const PackArguments& a, const PackStrip& strip, PackPart part,
                                   const TilesOfStrip& tiles, const u8* staged) {
    constexpr int halves = 2, half_bytes = warp_threads * 16;
    const int pitch = pack_pitch(a.part, spec.mxfp4), lane = lane_index(), warp = warp_index();
    const u8* from = staged + lane / 4 * pitch + lane % 4 * 4 + warp * (packed_k / 2);
    u8* to = tiles.first + warp * tiles.step + strip.number * (halves * half_bytes) + lane * 16;
    for (int k_block = warp; k_block < part.k_blocks; k_block += quantize_warps) {
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            const auto word = [&](int below, int step) {
                return int(load_staged(from + below * pitch + (2 * half + step) * 16));
            };
            store_global(reinterpret_cast<IntQuad*>(to + half * half_bytes),
                         IntQuad{{word(0, 0), word(8, 0), word(0, 1), word(8, 1)}});
        }
        from += quantize_warps * (packed_k / 2);
        to += quantize_warps * tiles.step;
    }
}

/// A mask of the bytes that are all ones.
TILEWRIGHT_DEVICE u32 full_bytes(u32 word) {
    const u32 top_bits = ((word & 0x7F7F'7F7FU) + 0x0101'0101U) & word & 0x8080'8080U;
    return (top_bits >> 7) * 0xFFU;
}

/// The bytes of the four scales of a row that is not wide, computed from the staged scales. `top` is the code of the
/// largest scale; scales that do not count get its byte. No scale is above it, and no byte of the difference is below
/// zero, so one subtraction suffices.
template <PackSpec spec>
TILEWRIGHT_DEVICE u32 relative_bytes(u32 scales, int top) {
    constexpr int top_byte = spec.for_fp8 ? 2 * fp8_top_exponent : 2 * ue8m0_bias - 1;
    return choose_bits(full_bytes(scales), u32(top) * 0x0101'0101U, scales) - u32(top - top_byte) * 0x0101'0101U;
}

/// The same for a row that has windows.
TILEWRIGHT_DEVICE u32 split_bytes(const PackWindows& windows, const int (&exponents)[pack_blocks]) {
    u32 bytes = 0;
#pragma unroll
    for (int i = 0; i < pack_blocks; ++i) {
        int top = 0;
#pragma unroll
        for (int window = 0; window < pack_blocks; ++window) {
            if (windows.of_block[i] == window) top = windows.top[window];
        }
        const int below = exponents[i] == no_exponent ? 0 : top - exponents[i];
        bytes |= u32((2 * fp8_top_exponent - below) | windows.of_block[i] << 4) << i * 8;
    }
    return bytes;
}

/// The same from the staged scales; also finds the row's windows.
TILEWRIGHT_DEVICE u32 windowed_bytes(u32 staged, PackWindows& windows) {
    int exponents[pack_blocks];
    exponents_of(staged, exponents);
    windows = find_windows(exponents);
    return split_bytes(windows, exponents);
}

/// The form of a window's exponent in a tile.
TILEWRIGHT_DEVICE u8 window_exponent(const PackWindows& windows, bool wide, int window) {
    int top = window == 0 && !wide ? fp8_top_exponent : no_window;
#pragma unroll
    for (int i = 0; i < pack_blocks; ++i) {
        if (wide && i == window && i < windows.count) top = windows.top[i] == no_exponent ? 0 : windows.top[i];
    }
    return u8(top);
}

/// Stores the exponents of all windows.
TILEWRIGHT_DEVICE void store_windows(const PackArguments& a, const PackWindows& windows, bool wide, u8* to) {
    for (int window = 0; window < a.windows; ++window) {
        store_global(to + window * packed_rows, window_exponent(windows, wide, window));
    }
}

/// The four scales of a row of MXFP4 in the form of their tile, and the row's windows.
template <PackSpec spec>
TILEWRIGHT_DEVICE u32 mxfp4_bytes(const PackArguments& a, const PackRow& row, int k_block, u32 staged, int top,
                                  u8* exponents_to) {
    const bool wide = top == wide_top;
    const int blocks = row.exists ? ceil_div(a.k, pack_block) - k_block * pack_blocks : 0;
    u32 bytes = relative_bytes<spec>(staged, top);
    if constexpr (spec.for_fp8) {
        PackWindows windows;
        if (wide) bytes = windowed_bytes(staged, windows);
        if (a.windows != 0) store_windows(a, windows, wide, exponents_to);
    } else {
        if (wide) {
            bytes = 0;
            for (int i = 0; i < min(blocks, pack_blocks); ++i) {
                bytes |= u32(load_global(scales_at<spec>(a, row, k_block * pack_blocks + i))) << i * 8;
            }
        }
        if (blocks < pack_blocks) bytes &= (1U << max(blocks, 0) * 8) - 1;
    }
    return bytes;
}

/// A lane writes a row's scales of a tile, in the order of the rows there.
template <PackSpec spec>
TILEWRIGHT_DEVICE void write_scales(const PackArguments& a, const PackStrip& strip, PackPart part,
                                    const TilesOfStrip& tiles, u8* staged, const PackShared& shared) {
    constexpr int at_once = warp_threads / pack_strip_rows, bytes = pack_scale_bytes<spec>;
    const int place = lane_index() % pack_strip_rows, in_strip = place / 2 + place % 2 * 8;
    const PackRow row = pack_row<spec>(a, strip, in_strip, staged);
    const int top = load_shared(shared.tops[in_strip]), in_tile = strip.number * pack_strip_rows + place;
    for (int k_block = warp_index() * at_once + lane_index() / pack_strip_rows; k_block < part.k_blocks;
         k_block += quantize_warps * at_once) {
        const u8* const from = staged_scales(row.staged, part) + k_block * bytes;
        u8* const scales = tiles.first + k_block * tiles.step + packed_code_bytes;
        u8* const to = scales + in_tile * bytes;
        if constexpr (spec.mxfp4) {
            u8* const exponents = scales + packed_rows * bytes + formats::windows_head_bytes + in_tile;
            const u32 word = mxfp4_bytes<spec>(a, row, part.begin + k_block, load_staged(from), top, exponents);
            store_global(reinterpret_cast<u32*>(to), word);
        } else {
            store_global(reinterpret_cast<u64*>(to), u64(load_staged(from)) | u64(load_staged(from + 4)) << 32);
        }
    }
}

template <PackSpec spec>
__global__ void __launch_bounds__(quantize_threads, 3) pack_tiles(const __grid_constant__ PackArguments a) {
    auto& shared = known_address(shared_memory<PackShared>());
    u8* const staged = reinterpret_cast<u8*>(&shared + 1);
    const PackStrip strip = pack_strip(a);
    const int k_blocks = ceil_div(a.k, packed_k);
    const auto each_row = [&](auto use) {
        for (int row = warp_index(); row < pack_strip_rows; row += quantize_warps) use(row);
    };
    each_row([&](int row) { judge<spec>(a, strip, row, staged, shared); });
    if (a.out == nullptr) return;
    for (int begin = 0; begin < k_blocks; begin += a.part) {
        const PackPart part{.begin = begin, .k_blocks = min(a.part, k_blocks - begin)};
        if (k_blocks > a.part) {  // the last part is staged
            sync_block();
            JudgedRow again;
            each_row([&](int row) { stage_row<spec>(a, pack_row<spec>(a, strip, row, staged), part, again); });
        }
        sync_block();
        const TilesOfStrip tiles = tiles_of(a, strip, part);
        write_codes<spec>(a, strip, part, tiles, staged);
        write_scales<spec>(a, strip, part, tiles, staged, shared);
    }
}

}  // namespace tilewright::hopper
