// The scales of blocks of 32 and 16, and the numbers by which elements are multiplied or divided. (The rules are in
// tilewright/quantize.h, the CPU's functions in src/formats/block_scale.cpp.)
#pragma once

#include "hopper/quantize/e2m1.h"
#include "hopper/quantize/scale.h"

namespace tilewright::hopper {

/// A block's scale as stored, and the parameters that convert its numbers to codes.
struct BlockScale {
    u32 code;
    float inverse;   // the inverse of a divisor that is a power of two
    Denominator by;  // other divisors
};

/// The exponent field of a power of two. With `up` it is the smallest that is not below amax / 1.m 2^e. Otherwise it is
/// the largest that is not above amax / 2^e. Subnormal amax gives no more than 0.
template <u32 largest_bits, bool up>
TILEWRIGHT_DEVICE int quotient_exponent(u32 amax) {
    constexpr int exponent = int(largest_bits >> 23) - 127;
    constexpr u32 fraction = largest_bits & 0x7F'FFFF;
    return int(amax >> 23) - exponent + (up && (amax & 0x7F'FFFF) > fraction ? 1 : 0);
}

/// The inverse of the power of two with the ue8m0 code `code` (its exponent field), 2^-127 included.
TILEWRIGHT_DEVICE float inverse_of_power(u32 code) { return from_bits((254U - code) << 23); }

template <BlockSpec spec>
TILEWRIGHT_DEVICE BlockScale mx_scale(u32 amax) {
    constexpr formats::Fields fields = spec.format == BlockFormat::mxfp8_e4m3   ? formats::e4m3_fields
                                       : spec.format == BlockFormat::mxfp8_e5m2 ? formats::e5m2_fields
                                                                                : formats::e2m1_fields;
    constexpr u32 largest = __builtin_bit_cast(u32, formats::decode(fields, fields.largest()));
    const u32 code = amax == 0 ? 127U : u32(max(quotient_exponent<largest, spec.round_up>(amax), 0));
    return {.code = code, .inverse = inverse_of_power(code), .by = {}};
}

/// The scale of a tensor as a divisor.
struct TensorScale {
    float scale;
    Denominator by;
};

template <BlockSpec spec>
TILEWRIGHT_DEVICE TensorScale tensor_scale(float scale) {
    TensorScale of_tensor{.scale = scale, .by = {}};
    if constexpr (!spec.round_up) of_tensor.by = denominator_of<CopySpec{}, false>(scale);
    return of_tensor;
}

/// The ue4m3 code of 2^exponent, -9 .. 8.
TILEWRIGHT_DEVICE u32 ue4m3_of_power(int exponent) {
    return exponent < -6 ? 1U << (exponent + 9) : u32(exponent + 7) << 3;
}

/// For scales of blocks and of the tensor that are powers of two.
TILEWRIGHT_DEVICE BlockScale nvfp4_power(u32 amax, float of_tensor) {
    constexpr u32 six = __builtin_bit_cast(u32, 6.0F);
    const int tensor_exponent = int(bits_of(of_tensor) >> 23);
    int exponent = amax == 0 ? 0 : quotient_exponent<six, true>(amax) - tensor_exponent;
    exponent = min(max(exponent, -9), 8);
    return {.code = ue4m3_of_power(exponent), .inverse = inverse_of_power(u32(exponent + tensor_exponent)), .by = {}};
}

/// Quotients that round to 0 in ue4m3 may be inexact, because the smallest code is stored for them.
template <bool is_short>
TILEWRIGHT_DEVICE BlockScale nvfp4_nearest(u32 amax, const TensorScale& of_tensor) {
    constexpr Denominator six{.scale = 6, .inverse = 1 / 6.0F, .rest = 0, .lift = 1};
    constexpr u32 one = 7U << 3;
    const float quotient = divide_exactly(divide_exactly(from_bits(amax), six), of_tensor.by);
    const u32 code = amax == 0 ? one : max(pack_e4m3(quotient, 0) & 0x7FU, 1U);
    const float divisor = from_f16(u16(f16_from_e4m3(code))) * of_tensor.scale;
    return {.code = code, .inverse = 0, .by = denominator_of<CopySpec{}, is_short>(divisor)};
}

template <BlockSpec spec>
TILEWRIGHT_DEVICE BlockScale block_scale(u32 amax, const TensorScale& of_tensor) {
    if constexpr (spec.format != BlockFormat::nvfp4) return mx_scale<spec>(amax);
    if constexpr (spec.round_up) return nvfp4_power(amax, of_tensor.scale);
    return nvfp4_nearest<spec.source != Number::f32>(amax, of_tensor);
}

/// Whether divisors are powers of two, so that a quotient has no more bits than its number.
constexpr bool divides_exactly(const BlockSpec& spec) { return spec.format != BlockFormat::nvfp4 || spec.round_up; }

/// Computed from the largest magnitude of a tensor, at least 2^-117; 1 if the magnitude is 0.
template <BlockSpec spec>
TILEWRIGHT_DEVICE float tensor_scale_of(float amax) {
    constexpr float smallest = formats::power_of_two(-117);
    if (amax == 0) return 1;
    if constexpr (spec.round_up) {
        constexpr u32 largest = __builtin_bit_cast(u32, 256.0F * 6);
        const int exponent = quotient_exponent<largest, true>(bits_of(amax));
        return from_bits(u32(max(exponent, int(bits_of(smallest) >> 23))) << 23);
    }
    constexpr float largest = 448.0F * 6;
    constexpr Denominator by{.scale = largest, .inverse = 1 / largest, .rest = 0, .lift = 1};
    const float scale = divide_exactly(amax, by);
    return scale < smallest ? smallest : scale;
}

}  // namespace tilewright::hopper
