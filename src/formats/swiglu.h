// SwiGLU and its gradient in f32, operation by operation, so that the CPU and the GPU return the same bits
// (tilewright/quantize_tokens.h has the formulas). C++20 without standard headers: device code includes it.
#pragma once

#include "formats/codec.h"

namespace tilewright::formats {

struct SwiGluRule {
    float alpha;
    float beta;
    float limit;
};

struct SwiGluGradient {
    float gate;
    float up;
};

/// a * b + c and 1 / x, each rounded once; of 1 / x neither x nor the result is subnormal.
#ifdef __CUDACC_RTC__
float fused(float a, float b, float c);  // src/hopper/ptx/ptx_numbers_sm90.h
float reciprocal(float x);
#else
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float reciprocal(float x) { return 1.0F / x; }
#endif

/// exp(x) for -87 <= x <= 87, or NaN: 2^n * exp(r) with r = x - n ln 2 within +-0.35, where seven terms of the series
/// leave 1e-8. ln 2 is in two parts, of which the first has 15 bits, so that its product with n is exact.
inline float exponential(float x) {
    constexpr float to_integer = 12582912;  // 1.5 * 2^23: the sum's last place is 1, so that it rounds to an integer
    const float n = fused(x, 1.442695041F, to_integer) - to_integer;
    const float r = fused(n, -1.428606820e-6F, fused(n, -0.693145751953125F, x));
    float sum = fused(r, 1.0F / 5040, 1.0F / 720);
    sum = fused(r, sum, 1.0F / 120);
    sum = fused(r, sum, 1.0F / 24);
    sum = fused(r, sum, 1.0F / 6);
    sum = fused(r, sum, 0.5F);
    sum = fused(r, sum, 1.0F);
    sum = fused(r, sum, 1.0F);
    // A NaN has no integer; what it is multiplied by does not matter.
    const int exponent = n >= -126 && n <= 126 ? int(n) : 0;
    return sum * __builtin_bit_cast(float, u32(exponent + 127) << 23);
}

/// 1 / (1 + exp(-x)), at least 1e-38, so that an infinite factor stays visible.
inline float sigmoid(float x) {
    const float above = -x > 87.0F ? 87.0F : -x;
    return reciprocal(1.0F + exponential(above < -87.0F ? -87.0F : above));
}

inline float clamped_gate(float gate, float limit) { return gate > limit ? limit : gate; }
inline float clamped_up(float up, float limit) {
    const float low = up < -limit ? -limit : up;
    return low > limit ? limit : low;
}

inline float swiglu(float gate, float up, const SwiGluRule& rule) {
    const float g = clamped_gate(gate, rule.limit);
    return g * sigmoid(rule.alpha * g) * (clamped_up(up, rule.limit) + rule.beta);
}

inline SwiGluGradient swiglu_gradient(float gate, float up, float gradient, const SwiGluRule& rule) {
    const float g = clamped_gate(gate, rule.limit);
    const float u = clamped_up(up, rule.limit) + rule.beta;
    const float s = sigmoid(rule.alpha * g);
    const float slope = s + rule.alpha * g * s * (1.0F - s);
    const bool up_is_clamped = up > rule.limit || up < -rule.limit;
    return {.gate = gate > rule.limit ? 0.0F : gradient * u * slope, .up = up_is_clamped ? 0.0F : gradient * (g * s)};
}

}  // namespace tilewright::formats
