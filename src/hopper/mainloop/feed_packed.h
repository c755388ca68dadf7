// The operand feed of packed MXFP4 weights: a lane's codes are decoded to e4m3 in its registers (ptx/decode_word.h).
// src/formats/packed_layout.h has the order of codes and scales.
#pragma once

#include "hopper/mainloop/fragments.h"
#include "hopper/ptx/decode_word.h"

namespace tilewright::hopper {

/// Bytes of 64 rows in a stage.
template <Tile tile>
TILEWRIGHT_DEVICE int packed_bytes(const Consumer<tile>& c) {
    return has_windows(tile) ? PackedTiles::from_map(c.arguments.b).tile_bytes : packed_tile_bytes(tile.b.storage);
}

/// The `half`-th 64 rows of weights of the warpgroup, at the stage `c.ring`.
template <Tile tile>
TILEWRIGHT_DEVICE const u8* packed_half(const Consumer<tile>& c, int half) {
    const int row = c.first_row() + half * wgmma_m;
    return c.shared.mma_a_values[c.ring.stage] + row / packed_tile_rows * packed_bytes<tile>(c);
}

/// The codes of a lane's two rows in 64 rows: of a half of k their steps in turn.
template <Tile tile>
TILEWRIGHT_DEVICE void load_codes(const Consumer<tile>& c, const u8* from, WordQuad (&halves)[2]) {
    const WordQuad* const codes = reinterpret_cast<const WordQuad*>(from) + c.warp * (2 * warp_threads) + c.lane;
    halves[0] = load_shared(codes[0]);
    halves[1] = load_shared(codes[warp_threads]);
}

/// The scales of a lane's two rows in 64 rows: a byte for each step.
struct CodeScales {
    template <Tile tile>
    TILEWRIGHT_DEVICE static CodeScales load(const Consumer<tile>& c, const u8* from) {
        const WordPair* const pairs = reinterpret_cast<const WordPair*>(from + packed_code_bytes);
        const WordPair pair = load_shared(pairs[c.warp * (warp_rows / 2) + c.lane / 4]);
        return {{pair.values[0], pair.values[1]}};
    }

    TILEWRIGHT_DEVICE u32 of_step(int row, int step) const { return multiply_bytes(rows[row], 1U << step * 8); }

    TILEWRIGHT_DEVICE DecodedWord decode(u32 word, int row, int step) const {
        return decode_word(word, of_step(row, step));
    }

    u32 rows[2];
};

/// mma A's words of 32 of k.
template <class Scales>
TILEWRIGHT_DEVICE void decode_step(u32 (&words)[fragment_words], const WordQuad (&halves)[2], const Scales& scales,
                                   int step) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {  // the lane's row, and the one eight further
        const DecodedWord decoded = scales.decode(halves[step / 2].values[step % 2 * 2 + row], row, step);
        words[row] = decoded.values[0];
        words[2 + row] = decoded.values[1];
    }
}

/// mma A as decoded codes. Where rows may be wide, for warpgroups that have none.
template <Tile tile>
struct PackedFeed : Fragments<tile> {
    TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile, bool accumulate) {
        if (subtile % subtiles_along_n<tile> == 0) fill(c, subtile);
        this->issue_held(c, d, subtile, accumulate);
    }

    /// Decodes the subtile's rows.
    TILEWRIGHT_DEVICE void fill(const Consumer<tile>& c, int subtile) {
        const u8* const from = packed_half(c, subtile / subtiles_along_n<tile>);
        WordQuad halves[2];
        load_codes(c, from, halves);
        decode(subtile, halves, CodeScales::load(c, from));
    }

protected:
    TILEWRIGHT_DEVICE void decode(int subtile, const WordQuad (&halves)[2], const CodeScales& scales) {
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
            decode_step(this->words[Fragments<tile>::held(subtile)][step], halves, scales, step);
        }
    }
};

template <Tile tile>
struct Feed<tile, FeedKind::decoded> : PackedFeed<tile> {
    TILEWRIGHT_DEVICE explicit Feed(const Consumer<tile>& /*consumer*/) {}
};

}  // namespace tilewright::hopper
