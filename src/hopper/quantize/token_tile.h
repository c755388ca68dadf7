// The tokens and features that a block quantizes. With groups, they are computed from the groups' ends in global
// memory.
#pragma once

#include "base/math.h"
#include "hopper/ptx/integers.h"
#include "hopper/ptx/ptx_numbers.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

struct TokenTile {
    int group = 0;
    int token = 0;   // The first token.
    int tokens = 0;  // Up to 128; 0 if the block has nothing to do.
    // The column of the first token in a transposed operand. int, because calls with 2^31 columns are refused in
    // advance.
    int column = 0;
    int feature = 0;

    /// The first token of this lane's four, and the first of its 16 features, both in the tile.
    static TILEWRIGHT_DEVICE int lane_token() { return int(u32(thread_index()) / row_lanes) * lane_tokens; }
    static TILEWRIGHT_DEVICE int lane_feature() { return int(u32(thread_index()) % row_lanes) * lane_features; }
};

TILEWRIGHT_DEVICE int group_end(const QuantizeArguments& arguments, int group) {
    const i64 end = load_integer(arguments.ends, arguments.ends_are_wide, i64(group) * arguments.ends_stride);
    return clamped(end, arguments.tokens);
}

/// The strip-th 128 tokens of all groups, by a warp together. It searches 32 groups at a time, whose ends and strips
/// are prefix sums.
TILEWRIGHT_DEVICE TokenTile find_strip(const QuantizeArguments& arguments, int strip) {
    const int lane = lane_index();
    int begin = 0;   // the beginning of the groups from here on
    int before = 0;  // strips of the earlier groups
    for (int first = 0; first < arguments.groups; first += warp_threads) {
        const int group = first + lane;
        // The ends ascend, and so do the ends clamped between the previous end and the number of tokens.
        const int stored = group < arguments.groups ? group_end(arguments, group) : 0;
        const int own_begin = begin_after_earlier(stored, begin), end = max(stored, own_begin);
        const int own_strips = ceil_div(end - own_begin, quantize_block), strips = sum_of_lanes(own_strips);
        const u32 has_it = ballot(before + strips > strip);
        if (has_it != 0) {
            const int index = strip - (before + strips - own_strips);  // in the lane's group
            const int token = own_begin + index * quantize_block;
            const int found = lowest_bit(has_it);
            return {.group = first + found,
                    .token = from_lane(token, found),
                    .tokens = from_lane(min(quantize_block, end - token), found),
                    .column = strip * quantize_block};
        }
        before += from_lane(strips, warp_threads - 1);
    }
    return {};
}

/// The strip of the block's tile. The first warp finds it for all, because this takes a search and a division.
/// Together.
TILEWRIGHT_DEVICE TokenTile find_tile(const QuantizeArguments& arguments, IntQuad& shared) {
    if (warp_index() == 0) {
        const int strip = block_index() / arguments.feature_tiles, lane = lane_index();
        const TokenTile found = find_strip(arguments, strip);
        const int number = lane == 0 ? found.group : lane == 1 ? found.token : lane == 2 ? found.tokens : strip;
        if (lane < 4) store_shared(shared.values[lane], number);
    }
    sync_block();
    const IntQuad found = load_shared(shared);
    return {.group = found.values[0],
            .token = found.values[1],
            .tokens = found.values[2],
            .column = found.values[3] * quantize_block,
            .feature = (block_index() - found.values[3] * arguments.feature_tiles) * quantize_block};
}

/// Features vary fastest, so that blocks that run together read whole rows. Together; `shared` is for groups.
template <Quantizer q>
TILEWRIGHT_DEVICE TokenTile token_tile(const QuantizeArguments& arguments, IntQuad& shared) {
    if constexpr (q.grouped) return find_tile(arguments, shared);
    const int strip = block_index() / arguments.feature_tiles, token = strip % arguments.strips * quantize_block;
    return {.group = strip / arguments.strips,
            .token = token,
            .tokens = min(quantize_block, arguments.tokens - token),
            .column = token,
            .feature = (block_index() - strip * arguments.feature_tiles) * quantize_block};
}

}  // namespace tilewright::hopper
