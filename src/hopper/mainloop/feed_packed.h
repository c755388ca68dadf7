// The operand feed of MXFP4 weights: a lane's codes are decoded to e4m3 in its registers (ptx/decode_word.h).
// src/formats/packed_layout.h has the order of codes and scales of packed ones. Raw codes are in swizzled rows of 64
// bytes, of all rows of a stage; what follows the codes in packed tiles is behind them.
#pragma once

#include "hopper/block/packed_view.h"
#include "hopper/mainloop/fragments.h"
#include "hopper/ptx/decode_word.h"

namespace tilewright::hopper {

/// 64 rows of weights in a stage: their codes, and what follows these in a packed tile.
struct StagedWeights {
    const u8* codes = nullptr;
    const u8* scales = nullptr;
};

/// Those of a subtile, at the stage `c.ring`.
template <Tile tile>
TILEWRIGHT_DEVICE StagedWeights staged_weights(const Consumer<tile>& c, int subtile) {
    const int row = c.first_row() + subtile / subtiles_along_n<tile> * wgmma_m;
    const u8* const stage = c.shared.mma_a_values[c.ring.stage];
    if constexpr (has_raw_codes(tile)) {
        const u8* const behind = stage + tile.shape.m * raw_row_bytes;
        return {stage + row * raw_row_bytes, behind + row / packed_tile_rows * raw_tile_bytes};
    }
    const u8* const from = stage + row / packed_tile_rows * loaded_tile_bytes<tile>(c.arguments);
    return {from, from + packed_code_bytes};
}

/// A lane's codes of 64 x 128 weights: packed ones.
template <bool raw>
struct StagedCodes {
    TILEWRIGHT_DEVICE StagedCodes(const u8* /*first*/, const u8* from, int warp, int lane) {
        const WordQuad* const codes = reinterpret_cast<const WordQuad*>(from) + warp * (2 * warp_threads) + lane;
        halves_[0] = load_shared(codes[0]);
        halves_[1] = load_shared(codes[warp_threads]);
    }
    /// Eight codes of a step of 32 of k; `i`: in the lane's row, or the one eight further.
    TILEWRIGHT_DEVICE u32 operator()(int step, int i) const { return halves_[step / 2].values[step % 2 * 2 + i]; }

private:
    WordQuad halves_[2];
};

/// Raw ones, two bytes at a time, without bank conflicts: the swizzle moves the 16 bytes of a step by a place with
/// every second row. A place in all stages, of which the first begins with a whole pattern of the swizzle, is one
/// register for all steps.
template <>
struct StagedCodes<true> {
    TILEWRIGHT_DEVICE StagedCodes(const u8* first, const u8* from, int warp, int lane)
        : first_(first),
          place_(int(from - first) + (warp * warp_rows + lane / 4) * raw_row_bytes + lane / 8 * 16 + lane % 4 * 2),
          positive_(held_constant(positive_codes)) {}
    TILEWRIGHT_DEVICE RawWord operator()(int step, int i) const {
        const u8* const row = first_ + (place_ ^ step * 16) + i * (8 * raw_row_bytes);
        return {{load_shared(reinterpret_cast<const u16&>(row[0])), load_shared(reinterpret_cast<const u16&>(row[8]))},
                positive_};
    }

private:
    const u8* first_;
    int place_;
    u32 positive_;
};

/// mma A as decoded codes.
template <Tile tile>
struct DecodedFragments : Fragments<tile> {
    /// A lane's codes of 64 rows: `decode(eight codes, byte of their block's scale)`.
    template <class Decode>
    TILEWRIGHT_DEVICE void load(const Consumer<tile>& c, const StagedWeights& from, int subtile, const Decode& decode) {
        const StagedCodes<has_raw_codes(tile)> codes(c.shared.mma_a_values[0], from.codes, c.warp, c.lane);
        const WordPair* const pairs = reinterpret_cast<const WordPair*>(from.scales);
        const WordPair scales = load_shared(pairs[c.warp * (warp_rows / 2) + c.lane / 4]);
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {  // the lane's row, and the one eight further
                const u32 scale = multiply_bytes(scales.values[i], 1U << step * 8);
                const DecodedWord decoded = decode(codes(step, i), scale);
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
        if (subtile % subtiles_along_n<tile> == 0) decode(c, subtile);
        Fragments<tile>::issue(c, d, subtile, accumulate);
    }

    /// The two parts of `issue`, of a subtile and of all subtiles that have its rows.
    TILEWRIGHT_DEVICE void issue_decoded(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile) {
        Fragments<tile>::issue(c, d, subtile, false);
    }
    TILEWRIGHT_DEVICE void decode(const Consumer<tile>& c, int subtile = 0) {
        this->load(c, staged_weights(c, subtile), subtile,
                   [](u32 word, u32 scale) { return decode_word(word, scale); });
    }
};

}  // namespace tilewright::hopper
