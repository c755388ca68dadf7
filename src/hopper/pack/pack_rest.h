// Packs FP4 weights, the kernels that follow pack_tiles.h. They write the heads of tiles' windows, the header, the
// scales of rows that are kept, and zeros between sections.
#pragma once

#include "hopper/pack/pack_tiles.h"

namespace tilewright::hopper {

/// A bit per lane: whether its row is wide, for 32 rows of a tile. These are rows 16 w + g, or 8 below. By a warp
/// together.
TILEWRIGHT_DEVICE u32 wide_rows(const PackArguments& a, i64 first_row, int below) {
    const int row = lane_index() / 8 * pack_strip_rows + lane_index() % 8 + below;
    const u32* const rows = reinterpret_cast<const u32*>(a.out + a.rows_at);
    return ballot((load_global(rows + (first_row + row) * 2 + 1) >> 16 & packed_row_wide) != 0);
}

/// The largest number of windows of a tile's rows 16 w + g, or 8 below.
TILEWRIGHT_DEVICE int most_windows_of(const PackArguments& a, const u8* exponents, u32 wide, int below) {
    int most = 1;
    for (u32 left = wide; left != 0; left &= left - 1) {
        const u8* const row = exponents + 2 * lowest_bit(left) + below;
        int windows = 0;
        for (int i = 0; i < a.windows; ++i) windows += load_global(row + i * packed_rows) == u8(no_window) ? 0 : 1;
        most = max(most, windows);
    }
    return most;
}

/// One block handles the row of tiles of 64 rows. The windows' data of its tiles are already written.
template <PackSpec spec>
__global__ void __launch_bounds__(quantize_threads, 2) pack_heads(const __grid_constant__ PackArguments a) {
    const int row_tiles = ceil_div(a.n, packed_rows), group = block_index() / row_tiles;
    const int row_tile = block_index() % row_tiles;
    const u32 upper = wide_rows(a, i64(block_index()) * packed_rows, 0);
    const u32 lower = wide_rows(a, i64(block_index()) * packed_rows, 8);
    for (int k_block = thread_index(); k_block < ceil_div(a.k, packed_k); k_block += quantize_threads) {
        const i64 tile = packed_tile_index(a.n, a.k, group, row_tile, k_block);
        u8* const head = a.out + a.tiles_at + tile * a.tile_bytes + packed_code_bytes + packed_rows * pack_blocks;
        const u8* const exponents = head + formats::windows_head_bytes;
        const int most = max(most_windows_of(a, exponents, upper, 0), most_windows_of(a, exponents, lower, 1));
        store_global(reinterpret_cast<IntQuad*>(head), IntQuad{{most, 0, int(upper), int(lower)}});
    }
}

/// All threads of the first block write zeros to bytes [begin, end).
TILEWRIGHT_DEVICE void clear(u8* out, i64 begin, i64 end) {
    for (i64 i = begin + thread_index(); i < end; i += quantize_threads) store_global(out + i, u8{0});
}

/// The first block writes the header and the bytes between sections. Each other block writes the scales of one row that
/// is kept.
template <PackSpec spec>
__global__ void __launch_bounds__(quantize_threads, 2) pack_rest(const __grid_constant__ PackArguments a) {
    if (block_index() > 0) {
        const i64 kept = load_global(a.kept_rows + block_index() - 1);
        u8* const to = a.out + a.kept_at + 8 + i64(block_index() - 1) * a.kept_row_bytes;
        if (thread_index() < 8) store_global(to + thread_index(), u8(kept >> 8 * thread_index()));
        const u8* const from = a.scales + kept / a.n * a.scale_group_stride + kept % a.n * a.scale_row_stride;
        const int columns = ceil_div(a.k, spec.mxfp4 ? pack_block : block_length(BlockFormat::nvfp4));
        for (int i = thread_index(); i < int(a.kept_row_bytes) - 8; i += quantize_threads) {
            store_global(to + 8 + i, i < columns ? load_global(from + i * a.scale_column_stride) : u8{0});
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
    const i64 tiles = i64(a.groups) * ceil_div(a.n, packed_rows) * ceil_div(a.k, packed_k);
    clear(a.out, a.tiles_at + tiles * a.tile_bytes, a.kept_at);
    if (!spec.mxfp4 && a.bytes == a.kept_at) return;
    clear(a.out, a.kept_at + 4, a.kept_at + 8);
    if (thread == 0) store_global(reinterpret_cast<u32*>(a.out + a.kept_at), u32(a.kept));
    clear(a.out, a.kept_at + 8 + a.kept * a.kept_row_bytes, a.bytes);
}

}  // namespace tilewright::hopper
