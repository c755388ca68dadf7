// The operand feed of weights that are packed for bf16. A lane decodes its FP4 values to bf16 in registers, one box of
// k at a time (ptx/decode_pairs.h).
#pragma once

#include "hopper/multiply/feed.h"
#include "hopper/ptx/decode_pairs.h"

namespace tilewright::hopper {

/// The scales of a lane's two rows, selected from the scales of all rows of a tile.
template <int scale_k>
struct TileScales : Bf16Scales<scale_k> {
    TILEWRIGHT_DEVICE TileScales(const u8* from, int pair, int box)
        : Bf16Scales<scale_k>(words(from, pair, box), box) {}

    TILEWRIGHT_DEVICE static ScaleWords words(const u8* from, int pair, int box) {
        if constexpr (packed_k / scale_k == 8) {
            const WordQuad rows = load_shared(reinterpret_cast<const WordQuad*>(from)[pair]);
            return {{rows.values[box], rows.values[2 + box]}};
        } else {
            const WordPair rows = load_shared(reinterpret_cast<const WordPair*>(from)[pair]);
            return {{rows.values[0], rows.values[1]}};
        }
    }
};

/// Decodes FP4 values without their scales.
struct NoBf16Scales {
    TILEWRIGHT_DEVICE NoBf16Scales(const u8* /*from*/, int /*pair*/, int /*box*/) {}

    TILEWRIGHT_DEVICE void multiply(DecodedPairs& decoded, int /*below*/, int /*step*/) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) decoded.pairs[i] = multiply_bf16(decoded.pairs[i], bf16_of_codes * bf16_pair);
    }
};

/// The tile of the subtile's rows, in the stage `c.ring`.
template <Design design>
TILEWRIGHT_DEVICE const u8* staged_bf16_tile(const Consumer<design>& c, int subtile) {
    const int row = c.first_row() + subtile / design.wgmmas_along_n * wgmma_m;
    return c.shared.mma_a_values[c.ring.stage] + row / packed_rows * packed_tile_bytes(design.b.scale_k);
}

/// A lane's FP4 values of a box of k of such a tile.
template <Design design>
TILEWRIGHT_DEVICE WordQuad codes_of_box(const Consumer<design>& c, const u8* from, int box) {
    const WordQuad* const codes = reinterpret_cast<const WordQuad*>(from) + c.warp * (2 * warp_threads) + c.lane;
    return load_shared(codes[box * warp_threads]);
}

/// The fragments of both wgmmas of the box's `step`-th 32 k-elements.
template <class Scales>
TILEWRIGHT_DEVICE void decode_step_to_bf16(u32 (*fragments)[fragment_words], const WordQuad& codes,
                                           const Scales& scales, int step) {
#pragma unroll
    for (int below = 0; below < 2; ++below) {  // the lane's row, and the row eight below
        DecodedPairs decoded = decode_pairs(codes.values[2 * step + below]);
        scales.multiply(decoded, below, step);
#pragma unroll
        for (int i = 0; i < 4; ++i) fragments[i / 2][i % 2 * 2 + below] = decoded.pairs[i];
    }
}

template <Design design>
struct Feed<design, FeedKind::decoded_to_bf16> : Fragments<design> {
    static_assert(design.k_boxes == 2);

    TILEWRIGHT_DEVICE explicit Feed(const Consumer<design>& /*consumer*/) {}

    /// d (+)= the subtile's products of a k-block. The second box is decoded while the tensor core multiplies the
    /// first.
    TILEWRIGHT_DEVICE void issue(Consumer<design>& c, float (&d)[design.wgmma_n / 2], int subtile, bool accumulate) {
        issue<0>(c, d, subtile, accumulate);
        issue<1>(c, d, subtile, true);
    }

    /// d (+)= the subtile's products of one box of k.
    template <int box>
    TILEWRIGHT_DEVICE void issue(Consumer<design>& c, float (&d)[design.wgmma_n / 2], int subtile, bool accumulate) {
        if (subtile % design.wgmmas_along_n == 0) load(c, subtile, box);
        this->issue_held(c, d, subtile, accumulate, box);
    }

    /// Decodes the subtile's rows of one box of k.
    template <class Scales = TileScales<design.b.scale_k>>
    TILEWRIGHT_DEVICE void load(const Consumer<design>& c, int subtile, int box) {
        constexpr int steps = wgmma_steps / 2;  // steps of 32 k-elements
        const u8* const from = staged_bf16_tile(c, subtile);
        const WordQuad codes = codes_of_box(c, from, box);
        const Scales scales(from + packed_code_bytes, pair_of_rows(c), box);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            decode_step_to_bf16(this->of(subtile, box) + 2 * step, codes, scales, step);
        }
    }
};

}  // namespace tilewright::hopper
