// The operand feed of packed MXFP4 weights: a lane's codes are decoded to e4m3 in its registers (ptx/decode_word.h).
// src/formats/packed_layout.h has the order of codes and scales.
#pragma once

#include "hopper/mainloop/fragments.h"
#include "hopper/ptx/decode_word.h"

namespace tilewright::hopper {

/// mma A as decoded codes.
template <Tile tile>
struct DecodedFragments : Fragments<tile> {
    /// A lane's codes of the 64 rows whose packed tile is `from`: `decode(eight codes, byte of their block's scale)`.
    template <class Decode>
    TILEWRIGHT_DEVICE void load(const Consumer<tile>& c, const u8* from, int subtile, const Decode& decode) {
        const WordQuad* const codes = reinterpret_cast<const WordQuad*>(from) + c.warp * (2 * warp_threads) + c.lane;
        const WordQuad halves[2] = {load_shared(codes[0]), load_shared(codes[warp_threads])};
        const WordPair* const pairs = reinterpret_cast<const WordPair*>(from + packed_code_bytes);
        const WordPair scales = load_shared(pairs[c.warp * (warp_rows / 2) + c.lane / 4]);
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {  // the lane's row, and the one eight further
                const u32 scale = multiply_bytes(scales.values[i], 1U << step * 8);
                const DecodedWord decoded = decode(halves[step / 2].values[step % 2 * 2 + i], scale);
                this->words[Fragments<tile>::held(subtile)][step][i] = decoded.values[0];
                this->words[Fragments<tile>::held(subtile)][step][2 + i] = decoded.values[1];
            }
        }
    }
};

template <Tile tile>
struct Feed<tile, FeedKind::decoded> : DecodedFragments<tile> {
    TILEWRIGHT_DEVICE explicit Feed(const Consumer<tile>& /*consumer*/) {}

    TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile, bool accumulate) {
        if (subtile % subtiles_along_n<tile> == 0) fill(c, subtile);
        this->issue_held(c, d, subtile, accumulate);
    }

    /// Decodes the subtile's rows.
    TILEWRIGHT_DEVICE void fill(const Consumer<tile>& c, int subtile) {
        const int row = c.first_row() + subtile / subtiles_along_n<tile> * wgmma_m;
        const u8* const from =
            c.shared.mma_a_values[c.ring.stage] + row / packed_tile_rows * packed_tile_bytes(tile.b.storage);
        this->load(c, from, subtile, decode_word);
    }
};

}  // namespace tilewright::hopper
