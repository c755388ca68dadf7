// Decodes values of MXFP4 weights to e4m3. Packed values take 10 instructions per eight; the mainloop that multiplies
// packed weights and the kernel that expands them use this. Unpacked weights have their values in order, as the caller
// stores them.
#pragma once

#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// Eight values times 2^(scale - 6) as e4m3, which holds them exactly for scales 1 .. 12. Element 0 has four neighbours
/// along k, element 1 the four that are 16 further.
struct DecodedWord {
    u32 values[2];
};

/// The eight magnitudes times the scale are a table in two registers. Byte permutes look it up with the magnitudes of
/// the codes. The exponent of e4m3 begins at bit 3, and 0.5, code 1, is the only subnormal of e2m1. So the table is the
/// scale times one constant plus another; 0 stays 0. Magnitudes outside of `mask` become 0, which keeps its sign.
TILEWRIGHT_DEVICE DecodedWord decode_word(u32 word, u32 scale, u32 mask = ~0U) {
    constexpr u32 magnitudes = 0x7777'7777, signs = 0x8080'8080;
    const u32 small = scale * 0x0808'0800 + 0x0C08'0000;  // 0, 0.5, 1, 1.5
    const u32 large = scale * 0x0808'0808 + 0x1C18'1410;  // 2, 3, 4, 6
    const u32 codes = word & magnitudes & mask;
    return {{permute_bytes(small, large, codes) | (word & signs),
             permute_bytes(small, large, codes >> 16) | (word << 4 & signs)}};
}

/// The result of byte permutes for positive codes. For negative codes the permutes give 0, copies of the top bits of
/// its bytes.
inline constexpr u32 positive_codes = 0x4040'4040;

/// The same eight values in the order of k, as loaded. [0] has four neighbours, [1] the four that are 16 further.
struct RawWord {
    u32 halves[2];
    u32 positive;  // `positive_codes`, in a register
};

/// In 11 instructions. All numbers of the table are negative. Twice the result of a byte permute of the signs is their
/// excess. No byte of the difference is below zero.
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
