// The operand feed of packed MXFP4 weights with wide rows: as that of the others, but also for the codes of one window
// of exponents at a time; all other codes are 0 then. src/formats/packed_layout.h has the order of codes, scales and
// windows.
#pragma once

#include "hopper/mainloop/feed_packed.h"

namespace tilewright::hopper {

/// What multiplies the sums of a row in a window: acc = fma(p * of_sum, scale of the other side * of_scale, acc).
struct WindowFactors {
    bool given;  // else the row takes no part, whatever the other side's scale is
    float of_sum;
    float of_scale;
};

/// `exponent`: the largest of the window, of which 6, fp8_top_exponent, is the factor 1. Half of the factor on either
/// side keeps both in fp32; of an odd power the scale has the larger one.
TILEWRIGHT_DEVICE WindowFactors window_factors(int exponent) {
    constexpr int top = 6, none = -128;  // fp8_top_exponent, no_window
    constexpr u32 exponent_field = 0xFF80'0000;
    const u32 twice = u32(exponent - top + 2 * 127);  // the biased exponent of a half
    return {exponent != none, __builtin_bit_cast(float, twice << 22 & exponent_field),
            __builtin_bit_cast(float, (twice + 1) << 22 & exponent_field)};
}

/// The largest exponents of a window, of a lane's two rows.
struct WindowExponents {
    TILEWRIGHT_DEVICE WindowFactors of_row(int row) const { return window_factors(int(both << (24 - 8 * row)) >> 24); }

    u32 both;
};

/// What follows the codes and scales of 64 rows: how many windows they have, and the exponents of these.
template <Tile tile>
struct WindowsOfRows {
    TILEWRIGHT_DEVICE static const u8* begin(const u8* codes) { return codes + packed_tile_bytes(tile.b.storage); }

    /// At least 1, the same in all warps of a warpgroup.
    TILEWRIGHT_DEVICE static int count(const u8* codes) {
        // Tiles behind the last of B are not loaded: anything may be there.
        const u32 windows = u32(same_in_warp(load_shared(*reinterpret_cast<const int*>(begin(codes)))));
        return int(max(min(windows, u32(most_windows)), 1U));
    }

    TILEWRIGHT_DEVICE static WindowExponents exponents(const Consumer<tile>& c, const u8* codes, int window) {
        const u8* const first = begin(codes) + sizeof(WordQuad) + window * packed_window_bytes;
        const int pair = c.warp * (warp_rows / 2) + c.lane / 4;  // two of them share a word
        return {u32(load_shared(reinterpret_cast<const int*>(first)[pair / 2])) >> pair % 2 * 16};
    }
};

/// The scales of a lane's two rows, and which steps have their codes in a window.
struct WindowScales {
    TILEWRIGHT_DEVICE WindowScales(const CodeScales& scales, int window) {
        constexpr u32 low_halves = 0x0F0F'0F0F, ones = 0x1010'1010, top_bits = 0x8080'8080;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const u32 off = (scales.rows[row] ^ u32(window) * ones) & ~low_halves;  // 0 in the window, else up to 0x70
            in_window[row] = top_bits - off;
            in_step.rows[row] = scales.rows[row] & low_halves;
        }
    }

    TILEWRIGHT_DEVICE DecodedWord decode(u32 word, int row, int step) const {
        return decode_word(word, in_step.of_step(row, step), top_bit_mask(in_window[row], step));
    }

    CodeScales in_step;
    u32 in_window[2];  // the top bit of a step's byte
};

template <Tile tile>
struct Feed<tile, FeedKind::windowed> : PackedFeed<tile> {
    TILEWRIGHT_DEVICE explicit Feed(const Consumer<tile>& /*consumer*/) {}

    /// Codes of 64 rows, those of one window.
    TILEWRIGHT_DEVICE void decode_window(const Consumer<tile>& c, const u8* from, int window) {
        WordQuad halves[2];
        load_codes(c, from, halves);
        this->PackedFeed<tile>::decode(0, halves, WindowScales(CodeScales::load(c, from), window));
    }

    TILEWRIGHT_DEVICE void clear() {
#pragma unroll
        for (int i = 0; i < wgmma_steps * fragment_words; ++i) {
            this->words[0][i / fragment_words][i % fragment_words] = 0;
        }
    }
};

}  // namespace tilewright::hopper
