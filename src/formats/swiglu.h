// SwiGLU and its gradient in f32, operation by operation, so that the CPU and the GPU return the same bits
// (tilewright/quantize_tokens.h has the formulas). C++20 without standard headers: device code includes it.
#pragma once

#include "formats/codec.h"

namespace tilewright::formats {

struct SwiGluRule {
    float alpha;
    float beta;
    float limit;
    bool has_limit = true;  // otherwise it is infinity
};

/// Replaces NaN and -0 of `limit`, for which the CPU and the kernels' minimum and maximum would differ.
inline float limit_of(float limit) { return limit == limit ? limit + 0.0F : __builtin_bit_cast(float, 0x7F80'0000U); }

struct SwiGluGradient {
    float gate;
    float up;
};

/// The operations that a GPU has instructions for, each with the same result on the CPU:
/// - a * b + c and 1 / x, rounded once; for 1 / x, neither x nor the result is subnormal;
/// - x within a bound, where NaN stays;
/// - 0 where x is above a bound, otherwise a value, without a branch.
#ifdef __CUDACC_RTC__
float fused(float a, float b, float c);  // src/hopper/ptx/ptx_numbers_sm90.h
float reciprocal(float x);
float at_most(float x, float bound);
float at_least(float x, float bound);
float zero_above(float x, float bound, float value);
#else
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float reciprocal(float x) { return 1.0F / x; }
inline float at_most(float x, float bound) { return x > bound ? bound : x; }
inline float at_least(float x, float bound) { return x < bound ? bound : x; }
inline float zero_above(float x, float bound, float value) { return x > bound ? 0.0F : value; }
#endif

/// 1 + exp(x) for -87 <= x <= 87, or NaN. Computed as 1 + 2^n * exp(r), r = x - n ln 2.
///
/// - r is within +-0.35, where seven terms of the series leave 1e-8.
/// - ln 2 is in two parts, of which the first has 15 bits, so that its product with n is exact.
inline float one_and_exponential(float x) {
    constexpr float to_integer = 12582912;  // 1.5 * 2^23: the sum's last place is 1, so that it rounds to an integer
    const float shifted = fused(x, 1.442695041F, to_integer), n = shifted - to_integer;
    const float r = fused(n, -1.428606820e-6F, fused(n, -0.693145751953125F, x));
    float sum = fused(r, 1.0F / 5040, 1.0F / 720);
    sum = fused(r, sum, 1.0F / 120);
    sum = fused(r, sum, 1.0F / 24);
    sum = fused(r, sum, 1.0F / 6);
    sum = fused(r, sum, 0.5F);
    sum = fused(r, sum, 1.0F);
    sum = fused(r, sum, 1.0F);
    // n is the last bits of the shifted number. A NaN has no n; its factor does not matter.
    const float power = __builtin_bit_cast(float, (__builtin_bit_cast(u32, shifted) << 23) + (127U << 23));
    return fused(sum, power, 1.0F);  // the product is exact
}

/// 1 / (1 + exp(-x)), at least 1e-38, so that an infinite factor stays visible.
inline float sigmoid(float x) { return reciprocal(one_and_exponential(at_least(at_most(-x, 87.0F), -87.0F))); }

inline float clamped_gate(float gate, const SwiGluRule& rule) {
    return rule.has_limit ? at_most(gate, rule.limit) : gate;
}
inline float clamped_up(float up, const SwiGluRule& rule) {
    return rule.has_limit ? at_most(at_least(up, -rule.limit), rule.limit) : up;
}
inline float zero_beyond(float x, const SwiGluRule& rule, float value) {
    return rule.has_limit ? zero_above(x, rule.limit, value) : value;
}

inline float swiglu(float gate, float up, const SwiGluRule& rule) {
    const float g = clamped_gate(gate, rule);
    return g * sigmoid(rule.alpha * g) * (clamped_up(up, rule) + rule.beta);
}

/// The derivative of swiglu by `gate` times `gradient`.
inline float gate_gradient(float gate, float up, float gradient, const SwiGluRule& rule) {
    const float g = clamped_gate(gate, rule);
    const float u = clamped_up(up, rule) + rule.beta;
    const float s = sigmoid(rule.alpha * g);
    const float slope = s + rule.alpha * g * s * (1.0F - s);
    return zero_beyond(gate, rule, gradient * u * slope);
}

/// The derivative by `up`, the same.
inline float up_gradient(float gate, float up, float gradient, const SwiGluRule& rule) {
    const float g = clamped_gate(gate, rule);
    const float size = __builtin_bit_cast(float, __builtin_bit_cast(u32, up) & 0x7FFF'FFFFU);
    return zero_beyond(size, rule, gradient * (g * sigmoid(rule.alpha * g)));
}

inline SwiGluGradient swiglu_gradient(float gate, float up, float gradient, const SwiGluRule& rule) {
    return {.gate = gate_gradient(gate, up, gradient, rule), .up = up_gradient(gate, up, gradient, rule)};
}

}  // namespace tilewright::formats
