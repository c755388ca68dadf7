// The mainloop of weights for bf16 with wide rows (docs/numerics.md). The tensor core adds all of k for all other rows.
// Wide rows have a partial accumulator per 32 k-elements, which is promoted by its scale. The 64 rows of a wgmma are of
// both kinds. So it runs once for each kind, and its effect on rows of the other kind is undone. Warpgroups without a
// wide row in a tile take the usual loop. Nothing overlaps in this one.
#pragma once

#include "formats/codec.h"
#include "hopper/block/ring.h"
#include "hopper/multiply/feed_bf16.h"
#include "hopper/multiply/unpromoted.h"

namespace tilewright::hopper {

template <Design design>
class WideRowsLoop {
public:
    TILEWRIGHT_DEVICE WideRowsLoop(Consumer<design>& c, Accumulators<design>& accumulators,
                                   const WideRows<design>& wide)
        : c_(c), accumulators_(accumulators), wide_(wide), feed_(c) {}

    TILEWRIGHT_DEVICE void run() {
        constexpr int blocks = design.stage_k / step_k;
        int blocks_left = (c_.arguments.k + step_k - 1) / step_k - k_slice_of<design>(c_.arguments).begin * blocks;
        clear<design>(accumulators_);
#pragma unroll 1
        for (int k_block = 0; k_block < c_.k_blocks; ++k_block, blocks_left -= blocks) {
            c_.wait_full();
#pragma unroll
            for (int subtile = 0; subtile < design.subtiles; ++subtile) multiply(subtile, blocks_left);
            sync_warp();  // all lanes have read their scales
            c_.release(c_.ring.stage);
            c_.ring.advance();
        }
    }

private:
    static constexpr int half_of(int subtile) { return subtile / design.wgmmas_along_n; }

    /// Multiplies one k-block of a subtile.
    TILEWRIGHT_DEVICE void multiply(int subtile, int blocks_left) {
        float(&sums)[design.wgmma_n / 2] = accumulators_[subtile];
        Partial<design> before;
#pragma unroll
        for (int i = 0; i < (design.wgmma_n / 2); ++i) before[i] = sums[i];
#pragma unroll
        for (int box = 0; box < design.k_boxes; ++box) {
            feed_.load(c_, subtile, box);
            pin(sums);
            feed_.issue_held(c_, sums, subtile, true, box);
            finish(sums);
        }
        const int half = half_of(subtile);
        if (!wide_.in_half[half]) return;
#pragma unroll
        for (int i = 0; i < (design.wgmma_n / 2); ++i) sums[i] = wide_.has(half, i) ? before[i] : sums[i];
        multiply_blocks<0>(sums, subtile, blocks_left);
        multiply_blocks<1>(sums, subtile, blocks_left);
    }

    /// Multiplies the two blocks of a box, as far as k goes.
    template <int box>
    TILEWRIGHT_DEVICE void multiply_blocks(float (&sums)[design.wgmma_n / 2], int subtile, int blocks_left) {
        if (2 * box >= blocks_left) return;
        feed_.template load<NoBf16Scales>(c_, subtile, box);
        multiply_block<2 * box>(sums, subtile);
        if (2 * box + 1 < blocks_left) multiply_block<2 * box + 1>(sums, subtile);
    }

    /// Adds to wide rows: fma(products of 32 k-elements, their scale, sum).
    template <int block>
    TILEWRIGHT_DEVICE void multiply_block(float (&sums)[design.wgmma_n / 2], int subtile) {
        constexpr int box = block / 2, first = block % 2 * 2;  // of the box's wgmmas
        Partial<design> partial;
        pin(partial);
        wgmma_fence();
        const auto b = fragments_mma_b(c_, subtile, box);
#pragma unroll
        for (int step = first; step < first + 2; ++step) {
            wgmma<design.wgmma_n, design.mma_a.side.values, design.mma_b.side.values>(
                partial, feed_.of(subtile)[step], b + step * (wgmma_k_bytes / descriptor_bytes), step > first);
        }
        finish(partial);
        const int half = half_of(subtile);
        // A tile stores the ue8m0 scales of wide rows unchanged.
        const u8* const from = staged_bf16_tile(c_, subtile) + packed_code_bytes;
        const WordPair codes = load_shared(reinterpret_cast<const WordPair*>(from)[pair_of_rows(c_)]);
        const Pair scales{formats::decode_ue8m0(codes.values[0] >> 8 * block & 0xFF),
                          formats::decode_ue8m0(codes.values[1] >> 8 * block & 0xFF)};
#pragma unroll
        for (int i = 0; i < (design.wgmma_n / 2); ++i) {
            const float scale = i % 4 < 2 ? scales.x : scales.y;
            sums[i] = wide_.has(half, i) ? fma(partial[i], scale, sums[i]) : sums[i];
        }
    }

    TILEWRIGHT_DEVICE void finish(float (&d)[design.wgmma_n / 2]) {
        wgmma_commit();
        wgmma_wait<0>();
        pin(d);
        feed_.complete();
    }

    Consumer<design>& c_;
    Accumulators<design>& accumulators_;
    const WideRows<design>& wide_;
    Feed<design> feed_;
};

template <Design design>
TILEWRIGHT_DEVICE void multiply_wide_rows(Consumer<design>& c, Accumulators<design>& accumulators) {
    wait_epilogue_scales<design>(c);
    const WideRows<design> wide(c);
    if (wide.any) {
        WideRowsLoop<design>(c, accumulators, wide).run();
    } else {
        multiply_unpromoted<design>(c, accumulators);
    }
    sync_warp();
}

}  // namespace tilewright::hopper
