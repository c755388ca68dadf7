// The kernel that prepares the products of groups of tokens. It computes the ends of the groups in a transposed
// operand. It also clears the rows of D that belong to no group.
//
// It replaces a pass over all of D, because products do not write such rows and usually there are none.
#pragma once

#include "hopper/ptx/lanes.h"
#include "hopper/quantize/token_tile.h"

namespace tilewright::hopper {

/// Bytes that a lane stores at once.
inline constexpr int clear_bytes = 16;

/// The token after the last group. Writes the ends of the groups' columns if `to` is not null. By a warp together.
TILEWRIGHT_DEVICE int last_end(const QuantizeArguments& tokens, u32* to) {
    int begin = 0, strip = 0;
    for (int first = 0; first < tokens.groups; first += warp_threads) {
        const int group = first + lane_index();
        const bool exists = group < tokens.groups;
        const int given = !exists ? 0 : tokens.ends == nullptr ? tokens.tokens : group_end(tokens, group);
        const int end = max(largest_of_lanes(min(given, tokens.tokens)), begin);
        const int before = from_lane(end, lane_index() - 1);
        const int size = end - (lane_index() == 0 ? begin : before);
        const int strips = strip + sum_of_lanes(ceil_div(size, quantize_block));
        if (to != nullptr && exists) {
            store_global(to + group, u32((strips - ceil_div(size, quantize_block)) * quantize_block + size));
        }
        begin = from_lane(end, warp_threads - 1);
        strip = from_lane(strips, warp_threads - 1);
    }
    return begin;
}

/// Sets a row to zeros. By a warp together.
TILEWRIGHT_DEVICE void clear_row(u8* row, i64 bytes, bool vectors) {
    if (vectors) {
        for (i64 at = lane_index() * clear_bytes; at < bytes; at += warp_threads * clear_bytes) {
            store_global(reinterpret_cast<IntQuad*>(row + at), IntQuad{{0, 0, 0, 0}});
        }
    } else {
        for (i64 at = lane_index(); at < bytes; at += warp_threads) store_global(row + at, u8(0));
    }
}

/// Each warp finds the last end by itself, which takes a load per 32 groups, and clears every `warps`-th row after it.
template <int threads>
__global__ void __launch_bounds__(threads, 2) finish_groups(const __grid_constant__ GroupArguments a) {
    const int warp = block_index() * (threads / warp_threads) + warp_index();
    const int warps = block_count() * (threads / warp_threads);
    const int end = last_end(a.tokens, warp == 0 ? a.column_ends : nullptr);
    if (a.rows == nullptr) return;
    const bool vectors = (reinterpret_cast<u64>(a.rows) | u64(a.row_bytes) | u64(a.row_stride)) % clear_bytes == 0;
    for (int row = end + warp; row < a.tokens.tokens; row += warps) {
        clear_row(a.rows + row * a.row_stride, a.row_bytes, vectors);
    }
}

}  // namespace tilewright::hopper
