// Converts arrays from f32 to any floating-point format and back, bit-equal to codec.h and fast. The loops are
// branch-free integer arithmetic, which compilers vectorise, or table look-ups.
#pragma once

#include "formats/codec.h"

#include <tilewright/formats.h>

#include <cstdint>

namespace tilewright::formats {

/// Decodes the first `count` elements of `source` to f32, exactly; NaN becomes canonical. Not for the integers. For
/// e2m1, which has two elements per byte, the high nibble of the last byte is ignored when `count` is odd.
void decode(Format format, const void* source, std::int64_t count, float* out);

/// Encodes `count` f32 numbers to the beginning of `out`, rounded to nearest, ties to even (ue8m0: to the larger). For
/// e2m1 the high nibble of the last byte is zero when `count` is odd. Not for the integers.
void encode(Format format, const float* source, std::int64_t count, void* out, Overflow overflow);

/// `condition ? yes : no` in a form that g++ turns into masks; the operator becomes jumps, which keep loops scalar.
constexpr std::int32_t select(bool condition, std::int32_t yes, std::int32_t no) {
    const std::int32_t mask = -std::int32_t{condition};
    return (yes & mask) | (no & ~mask);
}

/// f32 to the code of one of the formats with fewer fraction bits than f32, without a branch.
template <Fields f, Overflow overflow>
constexpr std::uint32_t encode_f32(float value) {
    constexpr std::int32_t infinity = 0x7F80'0000;
    constexpr int dropped = 23 - f.mantissa_bits;
    constexpr auto largest = __builtin_bit_cast(std::int32_t, decode(f, f.largest()));
    constexpr auto smallest_normal = __builtin_bit_cast(std::int32_t, power_of_two(f.smallest_exponent()));
    constexpr bool has_special = f.special != Special::none;
    constexpr bool clamps = overflow != Overflow::propagate || !has_special;
    constexpr auto nan = std::int32_t(f.all_ones());

    // Signed integers compare as the magnitudes do, and SSE2 can compare them.
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const auto magnitude = std::int32_t(bits & 0x7FFF'FFFFU);
    const std::int32_t kept = clamps ? select(magnitude > largest, largest, magnitude) : magnitude;

    const auto exact = std::uint32_t(kept) - (std::uint32_t{127 - f.bias} << 23);
    const std::uint32_t half = (1U << (dropped - 1)) - 1 + (exact >> dropped & 1);
    auto code = std::int32_t((exact + half) >> dropped);
    if constexpr (f.bias != 127) {
        // The sum with 2^(23 + exponent of the smallest number) has that number as its last place: hardware rounds.
        constexpr float aligner = power_of_two(f.smallest_exponent() - f.mantissa_bits + 23);
        const float aligned = __builtin_bit_cast(float, kept) + aligner;
        const std::int32_t subnormal =
            __builtin_bit_cast(std::int32_t, aligned) - __builtin_bit_cast(std::int32_t, aligner);
        code = select(kept < smallest_normal, subnormal, code);
    }
    auto sign = std::int32_t(bits >> (31 - f.exponent_bits - f.mantissa_bits) & f.sign_bit());
    if constexpr (overflow != Overflow::saturate && has_special) {
        constexpr bool has_infinity = f.special == Special::infinity_and_nan;
        const bool too_large =
            overflow == Overflow::propagate ? code > std::int32_t(f.largest()) : magnitude == infinity;
        code = select(too_large, has_infinity ? std::int32_t(f.infinity()) : nan, code);
        if constexpr (!has_infinity) sign = select(too_large, 0, sign);
    }
    return std::uint32_t(select(magnitude > infinity, nan, code | sign));
}

}  // namespace tilewright::formats
