// The common part of all operand feeds: mma B in shared memory, and the fragments of feeds that hold mma A in
// registers.
#pragma once

#include "hopper/block/consumer.h"

namespace tilewright::hopper {

/// Moves the two operands of a k-block to the tensor core (feed.h).
template <Tile tile, FeedKind kind = feed_of(tile)>
struct Feed;

inline constexpr int descriptor_bytes = 16;

/// The subtile's rows of mma B, for one box of k, in the stage `c.ring`.
template <Tile tile>
TILEWRIGHT_DEVICE MatrixDescriptor mma_b_rows(const Consumer<tile>& c, int subtile, int box = 0) {
    const int columns = subtile % subtiles_along_n<tile> * subtile_columns<tile>;
    const int boxes = c.ring.stage * k_boxes(tile) + box;
    return c.mma_b_descriptor + (boxes * tile.shape.n + columns) * (row_bytes / descriptor_bytes);
}

/// The same for wgmmas with fragments. bf16 issues many small wgmmas, which take the whole descriptor (ptx.h).
template <Tile tile>
TILEWRIGHT_DEVICE auto fragments_mma_b(const Consumer<tile>& c, int subtile, int box = 0) {
    if constexpr (multiplies_bf16(tile)) {
        return whole(mma_b_rows(c, subtile, box));
    } else {
        return mma_b_rows(c, subtile, box);
    }
}

/// mma A of a box of k, in the form that wgmma takes from registers.
template <Tile tile>
struct Fragments {
    /// The index of a subtile's rows among the held ones.
    static constexpr int held(int subtile) { return subtile / subtiles_along_n<tile> % held_halves<tile>; }

    /// d (+)= the subtile's rows of mma A, which are held, times its rows of mma B.
    TILEWRIGHT_DEVICE void issue_held(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile,
                                      bool accumulate, int box = 0) {
        wgmma_fence();
        const auto b = fragments_mma_b(c, subtile, box);
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
            wgmma<wgmma_n(tile), mma_a(tile).multiplied_as(), mma_b(tile).multiplied_as()>(
                d, words[held(subtile)][step], b + step * (wgmma_k_bytes / descriptor_bytes), accumulate || step > 0);
        }
    }

    /// The registers must keep their values up to this call.
    TILEWRIGHT_DEVICE void complete() {
#pragma unroll
        for (int i = 0; i < wgmma_steps * held_halves<tile>; ++i) {
            pin(words[i / wgmma_steps][i % wgmma_steps]);
        }
    }

    u32 words[held_halves<tile>][wgmma_steps][fragment_words];
};

}  // namespace tilewright::hopper
