// The common part of all operand feeds: mma B in shared memory, and the fragments of feeds that hold mma A in
// registers.
#pragma once

#include "hopper/block/consumer.h"

namespace tilewright::hopper {

/// Moves the two operands of a k-block to the tensor core (feed.h).
template <Design design, FeedKind kind = design.feed>
struct Feed;

inline constexpr int descriptor_bytes = 16;

/// The subtile's rows of mma B, for one box of k, in the stage `c.ring`.
template <Design design>
TILEWRIGHT_DEVICE MatrixDescriptor mma_b_rows(const Consumer<design>& c, int subtile, int box = 0) {
    const int columns = subtile % design.wgmmas_along_n * design.wgmma_n;
    const int boxes = c.ring.stage * design.k_boxes + box;
    return c.mma_b_descriptor + (boxes * design.shape.n + columns) * (row_bytes / descriptor_bytes);
}

/// The same for wgmmas with fragments. bf16 issues many small wgmmas, which take the whole descriptor (ptx.h).
template <Design design>
TILEWRIGHT_DEVICE auto fragments_mma_b(const Consumer<design>& c, int subtile, int box = 0) {
    if constexpr (design.order.step == StepKind::bf16) {
        return whole(mma_b_rows(c, subtile, box));
    } else {
        return mma_b_rows(c, subtile, box);
    }
}

/// mma A of a box of k, in the form that wgmma takes from registers.
template <Design design>
struct Fragments {
    /// The index of a subtile's rows among the held ones.
    static constexpr int held(int subtile) { return subtile / design.wgmmas_along_n % (design.held_rows / wgmma_m); }

    /// d (+)= the subtile's rows of mma A, which are held, times its rows of mma B.
    TILEWRIGHT_DEVICE void issue_held(Consumer<design>& c, float (&d)[design.wgmma_n / 2], int subtile, bool accumulate,
                                      int box = 0) {
        wgmma_fence();
        const auto b = fragments_mma_b(c, subtile, box);
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
            wgmma<design.wgmma_n, design.mma_a.multiplied, design.mma_b.multiplied>(
                d, words[held(subtile)][step], b + step * (wgmma_k_bytes / descriptor_bytes), accumulate || step > 0);
        }
    }

    /// The registers must keep their values up to this call.
    TILEWRIGHT_DEVICE void complete() {
#pragma unroll
        for (int i = 0; i < wgmma_steps * (design.held_rows / wgmma_m); ++i) {
            pin(words[i / wgmma_steps][i % wgmma_steps]);
        }
    }

    u32 words[design.held_rows / wgmma_m][wgmma_steps][fragment_words];
};

}  // namespace tilewright::hopper
