// Computes the scale of a block from its largest magnitude, the numbers in terms of the scale, and their codes, with
// the CPU's bits. (The rules are in tilewright/quantize.h, the CPU's functions in src/formats/block_scale.cpp.)
#pragma once

#include "formats/swiglu.h"
#include "hopper/ptx/ptx_numbers.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

inline constexpr u32 infinity_bits = 0x7F80'0000;

TILEWRIGHT_DEVICE u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
TILEWRIGHT_DEVICE float from_bits(u32 bits) { return __builtin_bit_cast(float, bits); }
TILEWRIGHT_DEVICE bool is_finite(float value) { return magnitude(value) < from_bits(infinity_bits); }

/// A scale as a divisor, whatever its value.
struct Denominator {
    float scale;    // the scale times lift: 1 .. 2
    float inverse;  // of `scale`
    float rest;     // what the inverse lacks, for `divide_short`: not negative
    float lift;     // a power of two
};

/// x / scale, rounded once, without the branch of the language's division. It is exact for each quotient that is not
/// rounded to 0 afterwards. Two corrections follow the product with the inverse. The first leaves an error below a last
/// place. The remainder is then exact, and the second rounds as the exact quotient does. (Markstein, Computation of
/// elementary functions on the IBM RISC System/6000 processor, 1990, theorem 5. The inverse is correctly rounded, as it
/// requires.) With these signs -0 stays -0.
TILEWRIGHT_DEVICE float divide_exactly(float x, const Denominator& by) {
    const float lifted = x * by.lift;
    float quotient = lifted * by.inverse;
    quotient = fma(fma(by.scale, quotient, -lifted), -by.inverse, quotient);
    return fma(fma(by.scale, quotient, -lifted), -by.inverse, quotient);
}

/// x / scale for x of at most 11 significant bits, so that it has the code of the rounded quotient. The proof:
///
/// - Ahead of its one rounding, the result is off by 2^-45. So it differs only if x / scale is adjacent to the middle M
///   of two numbers of fp32.
/// - It has another code only if one of these numbers is the middle of two codes. As an integer of 25 bits, M is then P
///   2^20 +- 1 with P = 16 .. 31.
/// - Let X and S be x and the scale as integers of 11 and 24 bits. Then x / scale = X 2^e / S, e >= 38, and |X 2^e - S
///   M| <= 16.
/// - S M = S P 2^20 +- S is that near a multiple of 2^20 only for S = j 2^20 + d with |d| <= 16, j = 8 .. 15.
/// - It then is j P 2^40 + (d P +- j) 2^20 +- d. This is that near a multiple of 2^38 only if d P = -+j. No d and P
///   satisfy this.
///
/// The middles of e2m1 are among the middles of e4m3. -0 stays -0.
TILEWRIGHT_DEVICE float divide_short(float x, const Denominator& by) {
    const float lifted = x * by.lift;
    return fma(lifted, by.inverse, lifted * by.rest);
}

/// The scale of a block with this largest finite magnitude.
template <CopySpec copy>
TILEWRIGHT_DEVICE float scale_of(float amax) {
    constexpr formats::Fields fields = copy.storage == ValueFormat::e4m3 ? formats::e4m3_fields : formats::e5m2_fields;
    constexpr float largest = formats::decode(fields, fields.largest());
    constexpr u32 smallest_normal = 1U << 23;
    if (amax == 0) amax = largest;  // the scale is 1
    if constexpr (copy.powers) {
        // The difference of the exponents, plus one if amax has the larger fraction.
        constexpr u32 exponent = (__builtin_bit_cast(u32, largest) >> 23) - 127;
        constexpr u32 fraction = __builtin_bit_cast(u32, largest) & 0x7F'FFFF;
        const u32 above = (bits_of(amax) >> 23) + ((bits_of(amax) & 0x7F'FFFF) > fraction ? 1U : 0U);
        return from_bits(above > exponent + 1 ? (above - exponent) << 23 : smallest_normal);
    } else {
        constexpr Denominator by{.scale = largest, .inverse = 1.0F / largest, .rest = 0, .lift = 1};
        const float scale = divide_exactly(amax, by);
        return scale < from_bits(smallest_normal) ? from_bits(smallest_normal) : scale;
    }
}

/// For a scale below 2^127, as scales of finite blocks are. `is_short`: x has 11 significant bits or fewer.
template <CopySpec copy, bool is_short>
TILEWRIGHT_DEVICE Denominator denominator_of(float scale) {
    const float lift = copy.powers ? 1.0F : from_bits((254U << 23) - (bits_of(scale) & infinity_bits));
    const float lifted = scale * lift;
    float inverse = formats::reciprocal(lifted), rest = 0;
    if constexpr (is_short && !copy.powers) {
        if (fma(-lifted, inverse, 1.0F) < 0) inverse = from_bits(bits_of(inverse) - 1);
        rest = fma(-lifted, inverse, 1.0F) * inverse;
    }
    return {.scale = lifted, .inverse = inverse, .rest = rest, .lift = lift};
}

/// A scale as a divisor in two instructions, or in one for powers of two. Only for regular scales (`is_regular`).
struct Inverse {
    float high;
    float low;  // the missing part: not negative
};

template <CopySpec copy>
TILEWRIGHT_DEVICE Inverse inverse_of(float scale) {
    if constexpr (copy.powers) return {.high = from_bits((254U << 23) - bits_of(scale)), .low = 0};
    float high = formats::reciprocal(scale);
    if (fma(-scale, high, 1.0F) < 0) high = from_bits(bits_of(high) - 1);
    return {.high = high, .low = fma(-scale, high, 1.0F) * high};
}

/// Like `divide_short`, but without the lift, which regular scales do not need.
template <CopySpec copy>
TILEWRIGHT_DEVICE float divide(float x, const Inverse& by) {
    if constexpr (copy.powers) return x * by.high;  // exact
    return fma(x, by.high, x * by.low);
}

/// Whether `divide` gives every number the code of the rounded quotient. Up to 2^102 the low part of the inverse has
/// the bits that `divide_short` requires. For numbers of 24 bits, e >= 24 takes the place of 38 in that proof. Again S
/// = j 2^20 + d with |d| <= 16. Now d P +- j must be a multiple of 16, which j = 8 .. 15 is not, so that d = 0 does no
/// harm. One scale of 30,000 has another such d (0xDFFFFD is wrong for 0xB5FFFE).
template <CopySpec copy, bool is_short>
TILEWRIGHT_DEVICE bool is_regular(float scale) {
    if constexpr (copy.powers) return true;
    const bool has_bits = scale <= 0x1p102F;
    if constexpr (is_short) return has_bits;
    const u32 distance = (bits_of(scale) + 16U) & 0xF'FFFFU;  // 16: none
    return has_bits && (distance > 32U || distance == 16U);
}

template <CopySpec copy>
TILEWRIGHT_DEVICE float divide_any(float x, float scale) {
    if constexpr (copy.powers) return divide<copy>(x, inverse_of<copy>(scale));
    return divide_exactly(x, denominator_of<copy, false>(scale));
}

/// Encodes four finite numbers, the first in the low byte.
template <ValueFormat storage>
TILEWRIGHT_DEVICE u32 encode(const float (&numbers)[4]) {
    if constexpr (storage == ValueFormat::e4m3) {
        return pack_e4m3(numbers);
    } else {
        return pack_e5m2(numbers);
    }
}

template <ValueFormat storage>
TILEWRIGHT_DEVICE u32 encode_one(float number) {
    return (storage == ValueFormat::e4m3 ? pack_e4m3(number, 0) : pack_e5m2(number, 0)) & 0xFFU;
}

/// The code of infinity or NaN if the number is one: NaN is 0x7F. e4m3 has no infinity and stores NaN.
template <ValueFormat storage>
TILEWRIGHT_DEVICE u32 mend_one(u32 code, float number) {
    if (is_finite(number)) return code;
    const bool infinite = storage == ValueFormat::e5m2 && bits_of(magnitude(number)) == infinity_bits;
    return infinite ? (bits_of(number) >> 24 & 0x80U) | 0x7CU : 0x7FU;
}

template <ValueFormat storage>
TILEWRIGHT_DEVICE u32 mend(u32 codes, const float (&numbers)[4]) {
    u32 mended = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) mended |= mend_one<storage>(codes >> 8 * i & 0xFFU, numbers[i]) << 8 * i;
    return mended;
}

template <CopySpec copy>
TILEWRIGHT_DEVICE void store_scale(const ScaleMatrix& scales, i64 index, float scale) {
    if constexpr (copy.ue8m0) {
        store_global(static_cast<u8*>(scales.data) + index, u8(bits_of(scale) >> 23));
    } else {
        store_global(static_cast<float*>(scales.data) + index, scale);
    }
}

TILEWRIGHT_DEVICE i64 scale_index(const ScaleMatrix& scales, int group, int token, int feature) {
    return group * scales.group_stride + token * scales.token_stride + feature * scales.feature_stride;
}

}  // namespace tilewright::hopper
