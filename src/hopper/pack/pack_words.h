// The order of packed values in their words (packed_place in src/formats/packed_layout.h). A row's 32 consecutive
// values along k are the four words of a quad's lanes.
#pragma once

#include "hopper/ptx/ptx_numbers.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

/// 32 values of a row, fewer at its end, followed by zeros.
struct PackBlock {
    u32 words[4] = {};
    TILEWRIGHT_DEVICE bool any() const { return ((words[0] | words[1] | words[2] | words[3]) & 0x7777'7777U) != 0; }
};

/// The order for fp8. Nibble j of lane t's word is the code of k = 4 t + j or 16 + 4 t + j - 4. Only the sign bit is
/// elsewhere, where the results of PRMT have their signs. The sign of nibble j is in byte j % 4, at bit 7 or, for the
/// upper four nibbles, at bit 3.
TILEWRIGHT_DEVICE PackBlock packed_for_fp8(const PackBlock& codes) {
    PackBlock packed;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const u32 lower = codes.words[half], upper = codes.words[half + 2];
        // The signs of two codes per byte, at bits 7 and 3: signs of the low nibbles and signs of the high nibbles.
        const u32 low = choose_bits(0x8080'8080U, lower << 4, upper);
        const u32 high = choose_bits(0x8080'8080U, lower, upper >> 4);
#pragma unroll
        for (int t = 0; t < 2; ++t) {
            const u32 upper_bytes = u32(t) * 0x2222U;
            const u32 numbers = permute_bytes(lower, upper, 0x5410U + upper_bytes);
            const u32 signs = permute_bytes(low, high, 0x5140U + upper_bytes);
            packed.words[half * 2 + t] = choose_bits(0x7777'7777U, numbers, signs);
        }
    }
    return packed;
}

/// The order for bf16: half words are pairs of k. The bits of a pair's two codes are where feed_bf16.h expects them for
/// its shifts.
TILEWRIGHT_DEVICE PackBlock packed_for_bf16(const PackBlock& codes) {
    constexpr u32 sign = 0x0008'0008U, number = 0x0007'0007U;
    PackBlock packed;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        const auto pair = [&](int i) {
            const u32 two = codes.words[i] >> t * 8;
            return (two & 0xFU) | (two & 0xF0U) << 12;
        };
        const u32 a = pair(0), b = pair(1), c = pair(2), d = pair(3);
        packed.words[t] = (a & number) << 6 | (a & sign) << 12 | (b & number) | (b & sign) << 6 | (c & number) << 10 |
                          permute_bytes(c & sign, 0, 0x1032U) | (d & 0x0003'0003U) << 4 | (d & 0x0004'0004U) << 12 |
                          (d & sign) << 10;
    }
    return packed;
}

template <PackSpec spec>
TILEWRIGHT_DEVICE PackBlock packed_words(const PackBlock& codes) {
    if constexpr (spec.mxfp4 && spec.for_fp8) return packed_for_fp8(codes);
    return packed_for_bf16(codes);
}

}  // namespace tilewright::hopper
