// What all operand feeds have in common: mma B in shared memory, and for those that hold mma A in registers its
// fragments.
#pragma once

#include "hopper/block/consumer.h"

namespace tilewright::hopper {

/// How the two sides of a k-block reach the tensor core (feed.h).
template <Tile tile, FeedKind kind = feed_of(tile)>
struct Feed;

inline constexpr int descriptor_bytes = 16;

/// The subtile's rows of mma B, at the stage `c.ring`: of one box of k.
template <Tile tile>
TILEWRIGHT_DEVICE MatrixDescriptor mma_b_rows(const Consumer<tile>& c, int subtile, int box = 0) {
    const int columns = subtile % subtiles_along_n<tile> * subtile_columns<tile>;
    const int boxes = c.ring.stage * k_boxes(tile) + box;
    return c.mma_b_descriptor + (boxes * tile.shape.n + columns) * (row_bytes / descriptor_bytes);
}

/// The same for the wgmmas of fragments; of bf16, which are many small ones, all of the descriptor (ptx.h).
template <Tile tile>
TILEWRIGHT_DEVICE auto fragments_mma_b(const Consumer<tile>& c, int subtile, int box = 0) {
    if constexpr (multiplies_bf16(tile)) {
        return whole(mma_b_rows(c, subtile, box));
    } else {
        return mma_b_rows(c, subtile, box);
    }
}

/// mma A of a box of k, as wgmma takes it from registers.
template <Tile tile>
struct Fragments {
    /// Where a subtile's rows are held.
    static constexpr int held(int subtile) { return subtile / subtiles_along_n<tile> % held_halves<tile>; }

    /// d (+)= the subtile's rows, which are held, times its rows of mma B.
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

    /// They must last up to here.
    TILEWRIGHT_DEVICE void complete() {
#pragma unroll
        for (int i = 0; i < wgmma_steps * held_halves<tile>; ++i) {
            pin(words[i / wgmma_steps][i % wgmma_steps]);
        }
    }

    u32 words[held_halves<tile>][wgmma_steps][fragment_words];
};

}  // namespace tilewright::hopper
