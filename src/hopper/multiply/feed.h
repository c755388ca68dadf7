// Operand feeds: they move the two operands of a k-block to the tensor core. A mainloop asks its feed to `issue` the
// wgmmas of a subtile. It calls `complete` after it has waited for them; until then the feed must keep its registers.
#pragma once

#include "hopper/block/ring.h"

namespace tilewright::hopper {

/// Moves the two operands of a k-block to the tensor core (feed.h).
template <Design design, FeedKind kind = design.feed>
struct Feed;

/// The number of the two rows that a lane has among the pairs of 64 rows of packed weights.
template <Design design>
TILEWRIGHT_DEVICE int pair_of_rows(const Consumer<design>& c) {
    return c.warp * (warp_rows / 2) + c.lane / 4;
}

inline constexpr int descriptor_bytes = 16;

/// The subtile's rows of mma A in the stage `c.ring`, if they are in shared memory.
template <Design design>
TILEWRIGHT_DEVICE MatrixDescriptor mma_a_rows(const Consumer<design>& c, int subtile) {
    static_assert(design.feed == FeedKind::shared);
    const int rows = subtile / design.wgmmas_along_n * wgmma_m;
    return c.mma_a_descriptor + (c.ring.stage * design.shape.m + rows) * (row_bytes / descriptor_bytes);
}

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

/// Issues a subtile's products of the stage `c.ring`, as one group.
template <Design design>
TILEWRIGHT_DEVICE void begin_product(Consumer<design>& c, Feed<design>& feed, Partial<design>& partial, int subtile) {
    pin(partial);
    wgmma_fence();
    feed.issue(c, partial, subtile, false);
    wgmma_commit();
}

/// Waits for all products, so that `partial` can be promoted.
template <Design design>
TILEWRIGHT_DEVICE void finish_product(Feed<design>& feed, Partial<design>& partial) {
    wgmma_wait<0>();
    pin(partial);
    feed.complete();
}

/// mma A, in the form that wgmma takes from registers. Without promotion, that of all rows of the warpgroup is held. If
/// k-blocks are decoded to bf16 and promoted, both boxes of one are.
template <Design design,
          int boxes = (design.feed == FeedKind::decoded_to_bf16 && design.order.chain >= packed_k) ? 2 : 1,
          int halves = design.order.chain == 0 ? design.rows_per_warpgroup / wgmma_m : 1>
struct Fragments {
    /// The fragments of a box of the subtile's rows.
    TILEWRIGHT_DEVICE auto& of(int subtile, int box = 0) {
        return words[box % boxes][subtile / design.wgmmas_along_n % halves];
    }

    /// d (+)= the subtile's rows of mma A, which are held, times its rows of mma B.
    TILEWRIGHT_DEVICE void issue_held(Consumer<design>& c, float (&d)[design.wgmma_n / 2], int subtile, bool accumulate,
                                      int box = 0) {
        wgmma_fence();
        const auto b = fragments_mma_b(c, subtile, box);
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
            wgmma<design.wgmma_n, design.mma_a.side.values, design.mma_b.side.values>(
                d, of(subtile, box)[step], b + step * (wgmma_k_bytes / descriptor_bytes), accumulate || step > 0);
        }
    }

    /// The registers must keep their values up to this call.
    TILEWRIGHT_DEVICE void complete() {
#pragma unroll
        for (int i = 0; i < boxes * halves * wgmma_steps; ++i) {
            pin(words[i / wgmma_steps / halves][i / wgmma_steps % halves][i % wgmma_steps]);
        }
    }

private:
    u32 words[boxes][halves][wgmma_steps][fragment_words];
};

/// Both operands from shared memory.
template <Design design>
struct Feed<design, FeedKind::shared> {
    TILEWRIGHT_DEVICE explicit Feed(const Consumer<design>& /*consumer*/) {}

    /// d (+)= the subtile's rows of mma A times its rows of mma B, from the stage `c.ring`.
    TILEWRIGHT_DEVICE void issue(Consumer<design>& c, float (&d)[design.wgmma_n / 2], int subtile, bool accumulate) {
        const MatrixDescriptor a = mma_a_rows(c, subtile), b = mma_b_rows(c, subtile);
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
            const int at = step * (wgmma_k_bytes / descriptor_bytes);
            wgmma<design.wgmma_n, design.mma_a.side.values, design.mma_b.side.values>(d, a + at, b + at,
                                                                                      accumulate || step > 0);
        }
    }

    TILEWRIGHT_DEVICE void complete() {}
};

/// mma A is MN-major. A stage has 128 bytes of mma A's rows per k, in the swizzle of all rows of 128 bytes. The
/// instruction ldmatrix gives a lane pairs of adjacent rows for two k at a time. Two permutes turn two pairs into four
/// k of each row.
template <Design design>
struct Feed<design, FeedKind::transposed> : Fragments<design> {
    static_assert(design.shape.m % mn_major_box == 0);

    TILEWRIGHT_DEVICE explicit Feed(const Consumer<design>& c) : place_(place(c)) {
        // Lanes 2 and 3 of four find the later pair of k in the matrix of the earlier one, see `k_of_address`.
        const bool exchanged = c.lane % 4 >= 2;
        first_row_ = exchanged ? 0x2064 : 0x6420;
        second_row_ = exchanged ? 0x3175 : 0x7531;
    }

    TILEWRIGHT_DEVICE void issue(Consumer<design>& c, float (&d)[design.wgmma_n / 2], int subtile, bool accumulate) {
        if (subtile % design.wgmmas_along_n == 0) fill(c, subtile);
        this->issue_held(c, d, subtile, accumulate);
    }

    /// Loads the warp's 16 rows of the subtile's 64. (A warpgroup of 128 rows begins with a box, so that its second 64
    /// rows are four chunks further. This is one bit of the swizzled address.)
    TILEWRIGHT_DEVICE void fill(const Consumer<design>& c, int subtile) {
        const int half = subtile / design.wgmmas_along_n;
        const u8* const from = c.shared.mma_a_values[c.ring.stage] + (place_ ^ half * wgmma_m);
        u32 pairs[wgmma_steps][fragment_words];
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
            load_matrix_transposed(pairs[step], from + step * wgmma_k_bytes * row_bytes);
        }
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
#pragma unroll
            for (int i = 0; i < fragment_words; ++i) {
                this->of(subtile)[step][i] = permute_bytes(pairs[step][i / 2 * 2], pairs[step][i / 2 * 2 + 1],
                                                           i % 2 == 0 ? first_row_ : second_row_);
            }
        }
    }

private:
    /// The k within a step's 32 for which a lane gives an address. Rows 2 i and 2 i + 1 of a matrix are for lane i of
    /// four. This lane needs k 4 i .. 4 i + 3 (16 more in matrices 2 and 3), from two matrices. The eight rows of a
    /// matrix must differ modulo 8, because otherwise they share banks. So the last two lanes take their pairs in the
    /// other order.
    TILEWRIGHT_DEVICE static int k_of_address(int lane) {
        const int of_four = lane / 2 % 4, matrix = lane / 8;
        return matrix / 2 * 16 + of_four * 4 + (matrix % 2 ^ of_four / 2) * 2 + lane % 2;
    }

    /// The lane's address in the first stage, in bytes, for the warp's first 16 rows.
    TILEWRIGHT_DEVICE static int place(const Consumer<design>& c) {
        const int row = c.first_row() + c.warp * warp_rows, k = k_of_address(c.lane);
        const int chunk = row % mn_major_box / 16;
        return row / mn_major_box * mn_major_box * row_bytes + k * row_bytes + (chunk ^ k % 8) * 16;
    }

    int place_;
    u32 first_row_;  // byte selectors for a lane's two rows
    u32 second_row_;
};

}  // namespace tilewright::hopper
