// Codes of MXFP4 weights as e4m3, of packed ones in 10 instructions for eight of them: for the mainloop that multiplies
// packed weights and for the kernel that expands them; and of those in order, as the caller has them.
#pragma once

#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// Eight codes times 2^(scale - 6) as e4m3, which has them exactly for scales 1 .. 12: [0] those of four neighbours of
/// k, [1] those of the four that are 16 further.
struct DecodedWord {
    u32 values[2];
};

/// The eight magnitudes times the scale are a table in two registers, which byte permutes look up with the codes'
/// magnitudes. e4m3 has its exponent from bit 3 on, and 0.5, code 1, is the only subnormal of e2m1, so that the table
/// is the scale times a constant and another constant; 0 stays 0. Magnitudes outside of `mask` are taken for 0, which
/// keeps its sign.
TILEWRIGHT_DEVICE DecodedWord decode_word(u32 word, u32 scale, u32 mask = ~0U) {
    constexpr u32 magnitudes = 0x7777'7777, signs = 0x8080'8080;
    const u32 small = scale * 0x0808'0800 + 0x0C08'0000;  // 0, 0.5, 1, 1.5
    const u32 large = scale * 0x0808'0808 + 0x1C18'1410;  // 2, 3, 4, 6
    const u32 codes = word & magnitudes & mask;
    return {{permute_bytes(small, large, codes) | (word & signs),
             permute_bytes(small, large, codes >> 16) | (word << 4 & signs)}};
}

/// What byte permutes by codes make of positive ones; of negative ones they make 0, copies of the top bits of its
/// bytes.
inline constexpr u32 positive_codes = 0x4040'4040;

/// The same eight codes in the order of k, as they were loaded: [0] four neighbours, [1] the four that are 16 further.
struct RawWord {
    u32 halves[2];
    u32 positive;  // `positive_codes`, in a register
};

/// In 11 instructions. Twice what a byte permute makes of the signs is what the table, whose numbers are all negative,
/// has too much. No byte of the difference is below zero.
TILEWRIGHT_DEVICE DecodedWord decode_word(const RawWord& word, u32 scale) {
    constexpr u32 magnitudes = 0x7777;
    const u32 small = scale * 0x0808'0800 + 0x8C88'8080;  // -0, -0.5, -1, -1.5
    const u32 large = scale * 0x0808'0808 + 0x9C98'9490;  // -2, -3, -4, -6
    const auto decode = [&](u32 half) {
        return permute_bytes(small, large, half & magnitudes) - 2 * permute_bytes(word.positive, word.positive, half);
    };
    return {{decode(word.halves[0]), decode(word.halves[1])}};
}

}  // namespace tilewright::hopper
