// Encode and decode one number of any format. C++20 without standard headers, constexpr throughout: the library, the
// emulator, the kernels (NVRTC) and the tests share it.
//
// A format is described by its fields (sign, exponent, mantissa) and by the meaning of its largest exponent. One
// decoder and one encoder serve all formats. Sources:
// - OCP 8-bit Floating Point Specification 1.0: e4m3, e5m2.
// - OCP Microscaling Formats 1.0: e2m1, e8m0.
// - IEEE 754: f16, f32.
//
// convert.h converts arrays.
#pragma once

namespace tilewright::formats {

using u32 = unsigned int;
using u64 = unsigned long long;

/// The meaning of codes with the largest exponent.
enum class Special {
    infinity_and_nan,  // as IEEE: mantissa 0 is infinity, others NaN
    nan_only,          // only exponent and mantissa all ones is NaN, the rest are numbers
    none,              // all are numbers
};

struct Fields {
    int exponent_bits;
    int mantissa_bits;
    int bias;
    Special special;

    constexpr u32 exponent_mask() const { return (1U << exponent_bits) - 1; }
    constexpr u32 mantissa_mask() const { return (1U << mantissa_bits) - 1; }
    constexpr u32 sign_bit() const { return 1U << (exponent_bits + mantissa_bits); }
    constexpr u32 all_ones() const { return sign_bit() - 1; }
    constexpr u32 infinity() const { return exponent_mask() << mantissa_bits; }
    /// Code of the largest finite number.
    constexpr u32 largest() const {
        switch (special) {
            case Special::infinity_and_nan: return infinity() - 1;
            case Special::nan_only: return all_ones() - 1;
            case Special::none: return all_ones();
        }
        return 0;
    }
    constexpr int smallest_exponent() const { return 1 - bias; }
};

inline constexpr Fields e4m3_fields{4, 3, 7, Special::nan_only};
inline constexpr Fields e5m2_fields{5, 2, 15, Special::infinity_and_nan};
inline constexpr Fields e2m1_fields{2, 1, 1, Special::none};
inline constexpr Fields f16_fields{5, 10, 15, Special::infinity_and_nan};
inline constexpr Fields bf16_fields{8, 7, 127, Special::infinity_and_nan};
inline constexpr Fields f32_fields{8, 23, 127, Special::infinity_and_nan};

enum class Overflow {
    saturate,         // Beyond the largest number, infinity included: the largest number.
    saturate_finite,  // The same for numbers; infinity as in `propagate`, so that it does not pass for a number.
    propagate,        // Infinity where the format has one, NaN where it has only that; a format with neither saturates.
};

/// 2^exponent for -149 <= exponent <= 127.
constexpr float power_of_two(int exponent) {
    const u32 bits = exponent >= -126 ? u32(exponent + 127) << 23 : 1U << (exponent + 149);
    return __builtin_bit_cast(float, bits);
}

/// The value of `code`; bits above the format's are ignored.
constexpr float decode(const Fields& f, u32 code) {
    const bool negative = (code & f.sign_bit()) != 0;
    const u32 sign = negative ? 0x8000'0000U : 0U;
    const u32 exponent = code >> f.mantissa_bits & f.exponent_mask();
    const u32 mantissa = code & f.mantissa_mask();
    const bool top = exponent == f.exponent_mask();
    const bool infinite = f.special == Special::infinity_and_nan && top && mantissa == 0;
    const bool nan = (f.special == Special::infinity_and_nan && top && mantissa != 0) ||
                     (f.special == Special::nan_only && top && mantissa == f.mantissa_mask());
    if (nan) return __builtin_bit_cast(float, 0x7FFF'FFFFU);
    if (infinite) return __builtin_bit_cast(float, sign | 0x7F80'0000U);
    if (exponent == 0) {
        const float magnitude = float(mantissa) * power_of_two(f.smallest_exponent() - f.mantissa_bits);
        return negative ? -magnitude : magnitude;
    }
    return __builtin_bit_cast(float,
                              sign | u32(int(exponent) - f.bias + 127) << 23 | mantissa << (23 - f.mantissa_bits));
}

/// Round to nearest, ties to even. NaN becomes the canonical code 0 1..1 1..1 (e2m1, which has none: the largest).
constexpr u32 encode(const Fields& f, double value, Overflow overflow = Overflow::saturate) {
    const u64 bits = __builtin_bit_cast(u64, value);
    const u32 sign = (bits >> 63) != 0 ? f.sign_bit() : 0U;
    const u64 fraction = bits & ((1ULL << 52) - 1);
    const int exponent = int(bits >> 52 & 2047) - 1023;
    const u32 beyond = f.special == Special::infinity_and_nan ? sign | f.infinity() : f.all_ones();
    const bool keeps_infinity = overflow != Overflow::saturate && f.special != Special::none;
    const u32 infinite = keeps_infinity ? beyond : sign | f.largest();
    const u32 too_large = overflow == Overflow::propagate ? infinite : sign | f.largest();
    if (exponent == 1024) return fraction != 0 ? f.all_ones() : infinite;

    // Significand in units of the target's last place; a subnormal target drops more bits. A double that is itself
    // subnormal is far below half of any format's smallest number and rounds to zero below.
    const int below = f.smallest_exponent() - exponent;
    const int dropped = 52 - f.mantissa_bits + (below > 0 ? below : 0);
    if (dropped > 54) return sign;
    const u64 significand = 1ULL << 52 | fraction;
    const u64 last_place = significand >> dropped & 1;
    const u64 rounded = (significand + (1ULL << (dropped - 1)) - 1 + last_place) >> dropped;
    // A carry out of the mantissa increases the exponent field, as it should.
    const u64 code = below > 0 ? rounded : (u64(exponent + f.bias - 1) << f.mantissa_bits) + rounded;
    return code > f.largest() ? too_large : sign | u32(code);
}

// The two scale formats that are not signed floats. Neither has a code for a negative number, which becomes NaN.

/// ue8m0: 2^(code - 127), 255 is NaN.
constexpr float decode_ue8m0(u32 code) {
    return code == 255 ? __builtin_bit_cast(float, 0x7FFF'FFFFU) : power_of_two(int(code) - 127);
}

enum class Rounding { nearest, up, down };

/// Nearest: a tie goes to the larger power (IEEE 754-2019, 4.3.1: with one digit of precision neither neighbour is
/// "even").
///
/// - Saturating: numbers that are too large, and infinity, become 2^127; zero and numbers that are too small become
///   2^-127.
/// - Otherwise numbers that round beyond 2^127, infinity, and zero, which the format lacks, become NaN.
constexpr u32 encode_ue8m0(double value, Rounding rounding = Rounding::nearest,
                           Overflow overflow = Overflow::saturate) {
    const u64 bits = __builtin_bit_cast(u64, value);
    const u64 magnitude = bits & ~(1ULL << 63);
    const u64 fraction = bits & ((1ULL << 52) - 1);
    const int exponent = int(magnitude >> 52) - 1023;
    const bool zero = magnitude == 0;
    const bool nan = exponent == 1024 && fraction != 0;
    if (nan || (bits != magnitude && !zero)) return 255;
    if (zero || exponent == 1024) {
        const bool saturates = overflow == Overflow::saturate || (zero && overflow == Overflow::saturate_finite);
        return !saturates ? 255 : zero ? 0 : 254;
    }
    const bool upper = rounding == Rounding::up ? fraction != 0 : rounding == Rounding::nearest && fraction >> 51 != 0;
    const int code = exponent + (upper ? 1 : 0) + 127;
    if (code > 254) return overflow == Overflow::propagate ? 255 : 254;
    return code < 0 ? 0 : u32(code);
}

/// ue4m3: e4m3 without a sign, the top bit is ignored.
constexpr float decode_ue4m3(u32 code) { return decode(e4m3_fields, code & 0x7FU); }

/// The power of two that the scales of a row's chains leave to the end of the sum (src/problem/canonical_order.h). It
/// is the part of the row's first scale that is outside 2^-64 .. 2^64; 1 where it is not a normal number.
constexpr float deferred_power(float first) {
    constexpr int kept = 64, bias = 127;
    const int field = int(__builtin_bit_cast(u32, first) >> 23 & 255);
    const int exponent = field == 0 || field == 255 ? 0 : field - bias;
    return power_of_two(exponent > kept ? exponent - kept : exponent < -kept ? exponent + kept : 0);
}

/// 1 / a power of two that `deferred_power` gives.
constexpr float inverse_power(float power) {
    constexpr u32 one_twice = 254U << 23;
    return __builtin_bit_cast(float, one_twice - __builtin_bit_cast(u32, power));
}

/// x * f * g, where f * g is a product of scales or of powers of two from scales. By the product where that is a normal
/// number, because x * f need not be; otherwise by one after the other.
constexpr float multiply_by_both(float x, float f, float g) {
    const float product = f * g;
    const u32 field = __builtin_bit_cast(u32, product) >> 23 & 255;
    return field == 0 || field == 255 ? x * f * g : x * product;
}

/// NVFP4's values are multiplied by 2^-8 and the tensor's scale by 2^8 (docs/numerics.md). One bf16 factor can then
/// combine a block's scale with the factor that decoded e2m1 bits need.
constexpr float nvfp4_value_factor() { return power_of_two(-8); }
constexpr float nvfp4_tensor_factor() { return power_of_two(8); }
/// Tensor scales this large leave that factor to the sum: their product could leave fp32.
constexpr bool is_large_tensor_scale(float scale) { return scale >= power_of_two(64) || scale <= -power_of_two(64); }

/// As e4m3; -0 is 0.
constexpr u32 encode_ue4m3(double value, Overflow overflow = Overflow::saturate) {
    return value < 0 ? e4m3_fields.all_ones() : encode(e4m3_fields, value, overflow) & 0x7FU;
}

// Two e2m1 codes to a byte, the first in the low nibble.

constexpr u32 pack_e2m1(u32 first, u32 second) { return (first & 15U) | (second & 15U) << 4; }
constexpr u32 first_e2m1(u32 byte) { return byte & 15U; }
constexpr u32 second_e2m1(u32 byte) { return byte >> 4 & 15U; }

}  // namespace tilewright::formats
