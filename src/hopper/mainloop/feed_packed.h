// The operand feed of packed MXFP4 weights: a lane's codes are decoded to e4m3 in its registers, 10 instructions for
// eight of them. src/formats/packed_layout.h has the order of codes and scales.
#pragma once

#include "hopper/mainloop/fragments.h"

namespace tilewright::hopper {

/// Eight codes times 2^(scale - 6) as e4m3, which has them exactly for scales 1 .. 12: [0] those of four neighbours of
/// k, [1] those of the four that are 16 further.
struct DecodedWord {
    u32 values[2];
};

/// The eight magnitudes times the scale are a table in two registers, which byte permutes look up with the codes'
/// magnitudes. e4m3 has its exponent from bit 3 on, and 0.5, code 1, is the only subnormal of e2m1, so that the table
/// is the scale times a constant and another constant; 0 stays 0.
TILEWRIGHT_DEVICE DecodedWord decode_word(u32 word, u32 scale) {
    constexpr u32 magnitudes = 0x7777'7777, signs = 0x8080'8080;
    const u32 small = scale * 0x0808'0800 + 0x0C08'0000;  // 0, 0.5, 1, 1.5
    const u32 large = scale * 0x0808'0808 + 0x1C18'1410;  // 2, 3, 4, 6
    const u32 codes = word & magnitudes;
    return {{permute_bytes(small, large, codes) | (word & signs),
             permute_bytes(small, large, codes >> 16) | (word << 4 & signs)}};
}

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
        if (subtile % wgmmas_along_n(tile) == 0) {
            const int row = c.first_row() + subtile / wgmmas_along_n(tile) * wgmma_m;
            const u8* const from =
                c.shared.mma_a_values[c.ring.stage] + row / packed_tile_rows * packed_tile_bytes(tile.b.storage);
            this->load(c, from, subtile, decode_word);
        }
        Fragments<tile>::issue(c, d, subtile, accumulate);
    }
};

}  // namespace tilewright::hopper
