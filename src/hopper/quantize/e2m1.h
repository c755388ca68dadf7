// Rounds to e2m1, for which Hopper has no instruction: two numbers at a time as f16, in integers, with the CPU's
// results.
//
// The numbers are first multiplied by 2^-14, so that f16 has its subnormal numbers where e2m1 has: below 1. Bits 9 ..
// 11 of a half are then the code of the magnitude, rounded down. The bits below them determine the rounding, so that
// round-half-to-even is an addition.
#pragma once

#include "formats/codec.h"
#include "hopper/ptx/ptx_numbers.h"

namespace tilewright::hopper {

inline constexpr float e2m1_shift = formats::power_of_two(-14);

/// For numbers with more bits than f16 holds. From 0.25 on, times 2^-14, the last place of f16 is bit 15 or lower of
/// f32. A lost bit is recorded in the last place that is kept, so that no number becomes the middle of two codes.
TILEWRIGHT_DEVICE float keep_inexact(float shifted) {
    constexpr u32 last_place = 0x8000;
    const u32 bits = __builtin_bit_cast(u32, shifted);
    return __builtin_bit_cast(float, bits | (((bits & (last_place - 1)) + (last_place - 1)) & last_place));
}

/// The codes with their signs in bits 9 .. 12 of each half; other bits are undefined.
TILEWRIGHT_DEVICE u32 round_e2m1(u32 halves) {
    constexpr u32 largest = 0x0E00'0E00, below_half = 0x00FF'00FF, last_places = 0x0001'0001;
    constexpr u32 signs = 0x1000'1000;
    const u32 magnitudes = smaller_halves(halves & 0x7FFF'7FFFU, largest);
    const u32 rounded = magnitudes + below_half + (magnitudes >> 9 & last_places);
    return (rounded & ~signs) | (halves >> 3 & signs);
}

/// Converts eight numbers times 2^-14 to eight codes, the first in the lowest bits. A pair has numbers i and i + 4, so
/// that the pairs' codes form the word after one shift each.
TILEWRIGHT_DEVICE u32 encode_e2m1(const float (&shifted)[8]) {
    constexpr u32 code = 0x000F'000F;
    u32 pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = round_e2m1(truncate_f16(shifted[i], shifted[i + 4]));
    return (pairs[0] >> 9 & code) | (pairs[1] >> 5 & code << 4) | (pairs[2] >> 1 & code << 8) |
           (pairs[3] << 3 & code << 12);
}

}  // namespace tilewright::hopper
