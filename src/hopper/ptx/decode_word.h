// Codes of packed MXFP4 weights as e4m3, in 10 instructions for eight of them: for the mainloop that multiplies packed
// weights and for the kernel that expands them.
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

}  // namespace tilewright::hopper
