// Prefetches a later block's tile of x into L2. The blocks of an SM start and compute together, so that memory would
// have little to do while they compute. The tile that is loaded later is then in L2.
#pragma once

#include "hopper/quantize/numbers.h"
#include "hopper/quantize/token_tile.h"

namespace tilewright::hopper {

/// Prefetches the tile that is `arguments.later_tokens` and `later_features` from this one. If a group ends within 128
/// tokens, the prefetched tile is off by that many tokens, but always within x.
template <Quantizer q>
TILEWRIGHT_DEVICE void prefetch_later(const QuantizeArguments& arguments, TokenTile tile) {
    static_assert(holds_pairs(q));
    if (arguments.index != nullptr) return;  // The rows of the later tile would have to be loaded first.
    const int width = arguments.feature_tiles * quantize_block;
    tile.token += arguments.later_tokens;
    tile.feature += arguments.later_features;
    if (tile.feature >= width) {
        tile.token += quantize_block;
        tile.feature -= width;
    }
    constexpr int bytes = 2, lines = quantize_block * bytes / prefetched_bytes;  // per token
    constexpr int step = quantize_threads / lines;
    const u32 thread = u32(thread_index());
    const int feature = tile.feature + int(thread % lines) * (quantize_block / lines);
    if (feature >= arguments.features) return;
    int token = tile.token + int(thread / lines);
    const SourceMatrix& x = arguments.x;
    const u8* from = static_cast<const u8*>(x.data) + (row_of(x, tile.group, token) + feature) * bytes;
#pragma unroll
    for (int i = 0; i < quantize_block / step; ++i) {
        if (token < arguments.tokens) prefetch_global(from);
        token += step;
        from += step * x.token_stride * bytes;
    }
}

}  // namespace tilewright::hopper
