// The operand feed of MXFP4 weights. A lane decodes its values to e4m3 in registers (ptx/decode_word.h).
// src/formats/packed_layout.h defines the order of values and scales in packed weights. Unpacked weights read in place
// have the values of all rows of a stage in swizzled rows of 64 bytes. The scale data that follow the values in packed
// tiles are stored after these rows.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/multiply/feed.h"
#include "hopper/ptx/decode_word.h"

namespace tilewright::hopper {

/// 64 rows of weights in a stage: their values, and the data that follow the values in a packed tile.
struct StagedWeights {
    const u8* codes = nullptr;
    const u8* scales = nullptr;
};

/// The warpgroup's `half`-th 64 rows, in the stage `c.ring`.
template <Design design>
TILEWRIGHT_DEVICE StagedWeights staged_weights(const Consumer<design>& c, int half) {
    const int row = c.first_row() + half * wgmma_m;
    const u8* const stage = c.shared.mma_a_values[c.ring.stage];
    if constexpr (design.b.form == Form::rows_and_tiles) {
        const u8* const behind = stage + design.shape.m * raw_row_bytes;
        return {stage + row * raw_row_bytes, behind + row / packed_rows * raw_tile_bytes};
    }
    const u8* const from = stage + row / packed_rows * loaded_tile_bytes<design>(c.arguments);
    return {from, from + packed_code_bytes};
}

/// A lane's values of 64 x 128 packed weights.
template <bool raw>
struct StagedCodes {
    StagedCodes() = default;
    TILEWRIGHT_DEVICE StagedCodes(const u8* /*first*/, const u8* from, int warp, int lane) {
        const WordQuad* const codes = reinterpret_cast<const WordQuad*>(from) + warp * (2 * warp_threads) + lane;
        halves_[0] = load_shared(codes[0]);
        halves_[1] = load_shared(codes[warp_threads]);
    }
    /// Eight values of a step of 32 k-elements; `row`: 0 for the lane's row, 1 for the row eight below.
    TILEWRIGHT_DEVICE u32 operator()(int step, int row) const { return halves_[step / 2].values[step % 2 * 2 + row]; }

private:
    WordQuad halves_[2];
};

/// A lane's values of unpacked weights, read two bytes at a time without bank conflicts. The swizzle moves the 16 bytes
/// of a step by one place in every second row. The place is an offset from the first stage, which begins with a whole
/// pattern of the swizzle. So one register serves all steps.
template <>
struct StagedCodes<true> {
    TILEWRIGHT_DEVICE StagedCodes(const u8* first, const u8* from, int warp, int lane)
        : first_(first),
          place_(int(from - first) + (warp * warp_rows + lane / 4) * raw_row_bytes + lane / 8 * 16 + lane % 4 * 2),
          positive_(held_constant(positive_codes)) {}
    TILEWRIGHT_DEVICE RawWord operator()(int step, int row) const {
        const u8* const from = first_ + (place_ ^ step * 16) + row * (warp_rows / 2 * raw_row_bytes);
        return {
            {load_shared(reinterpret_cast<const u16&>(from[0])), load_shared(reinterpret_cast<const u16&>(from[8]))},
            positive_};
    }

private:
    const u8* first_;
    int place_;
    u32 positive_;
};

template <Design design>
TILEWRIGHT_DEVICE StagedCodes<design.b.form == Form::rows_and_tiles> staged_codes(const Consumer<design>& c,
                                                                                  const StagedWeights& from) {
    return {c.shared.mma_a_values[0], from.codes, c.warp, c.lane};
}

/// The scales of a lane's two rows in 64 rows: one byte per step.
struct CodeScales {
    template <Design design>
    TILEWRIGHT_DEVICE static CodeScales load(const Consumer<design>& c, const StagedWeights& from) {
        const WordPair* const pairs = reinterpret_cast<const WordPair*>(from.scales);
        const WordPair pair = load_shared(pairs[pair_of_rows(c)]);
        return {{pair.values[0], pair.values[1]}};
    }

    TILEWRIGHT_DEVICE u32 of_step(int row, int step) const { return multiply_bytes(rows[row], 1U << step * 8); }

    template <class Word>
    TILEWRIGHT_DEVICE DecodedWord decode(const Word& word, int row, int step) const {
        return decode_word(word, of_step(row, step));
    }

    u32 rows[2];
};

/// mma A's words of 32 k-elements.
template <class Codes, class Scales>
TILEWRIGHT_DEVICE void decode_step(u32 (&words)[fragment_words], const Codes& codes, const Scales& scales, int step) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {  // the lane's row, and the row eight below
        const DecodedWord decoded = scales.decode(codes(step, row), row, step);
        words[row] = decoded.values[0];
        words[2 + row] = decoded.values[1];
    }
}

/// Decoded values as mma A. If rows may be wide, this feed serves the warpgroups without wide rows.
template <Design design>
struct PackedFeed : Fragments<design> {
    TILEWRIGHT_DEVICE void issue(Consumer<design>& c, float (&d)[design.wgmma_n / 2], int subtile, bool accumulate) {
        if (subtile % design.wgmmas_along_n == 0) fill(c, subtile);
        this->issue_held(c, d, subtile, accumulate);
    }

    /// Decodes the subtile's rows.
    TILEWRIGHT_DEVICE void fill(const Consumer<design>& c, int subtile) {
        const StagedWeights from = staged_weights(c, subtile / design.wgmmas_along_n);
        decode(subtile, staged_codes(c, from), CodeScales::load(c, from));
    }

protected:
    TILEWRIGHT_DEVICE void decode(int subtile, const StagedCodes<design.b.form == Form::rows_and_tiles>& codes,
                                  const CodeScales& scales) {
#pragma unroll
        for (int step = 0; step < wgmma_steps; ++step) {
            decode_step(this->of(subtile)[step], codes, scales, step);
        }
    }
};

template <Design design>
struct Feed<design, FeedKind::decoded> : PackedFeed<design> {
    TILEWRIGHT_DEVICE explicit Feed(const Consumer<design>& /*consumer*/) {}
};

}  // namespace tilewright::hopper
