// The functions between the products of a layer of experts, and their gradients (tilewright/moe.h has the formulas). In
// f32, operation by operation, so that the CPU and the GPU return the same bits. C++20 without standard headers: device
// code includes it.
#pragma once

#include "formats/swiglu.h"

namespace tilewright::formats {

enum class Unit : unsigned char { swiglu, situ, geglu, relu_squared };

constexpr bool has_up(Unit unit) { return unit != Unit::relu_squared; }

/// The numbers of any unit.
struct GatedRule {
    SwiGluRule swiglu{.alpha = 1, .beta = 0, .limit = 0, .has_limit = false};
    float gate_bound = 4;        // situ: b
    float gate_inverse = 0.25F;  // 1 / b
    float up_bound = 25;         // c
    float up_inverse = 0.04F;    // 1 / c
    bool bounds_up = true;       // c is finite
};

inline float magnitude(float x) { return __builtin_bit_cast(float, __builtin_bit_cast(u32, x) & 0x7FFF'FFFFU); }

/// Half of what tanh of the size lacks to 1, at least 1e-38.
inline float half_rest_of_tanh(float size) { return reciprocal(one_and_exponential(at_most(2.0F * size, 87.0F))); }

/// tanh within two last places. Below 0.625 a polynomial of x^2, because the exponential loses the last bits of small
/// numbers. Its coefficients are a Chebyshev fit of (tanh(x) / x - 1) / x^2.
inline float tanh_of(float x) {
    constexpr u32 sign = 0x8000'0000U;
    const u32 bits = __builtin_bit_cast(u32, x);
    const float size = magnitude(x);
    const float square = size * size;
    float sum = fused(square, -0.006104945205152035F, 0.021003639325499535F);
    sum = fused(square, sum, -0.05385249853134155F);
    sum = fused(square, sum, 0.13332782685756683F);
    sum = fused(square, sum, -0.333333283662796F);
    const float small = fused(size, square * sum, size);
    const float large = fused(-2.0F, half_rest_of_tanh(size), 1.0F);
    const float result = size < 0.625F ? small : large;
    return __builtin_bit_cast(float, __builtin_bit_cast(u32, result) | (bits & sign));
}

/// The derivative of tanh. Not 1 - tanh^2: a tanh near 1 has lost its last bits.
inline float tanh_slope(float x) {
    const float rest = half_rest_of_tanh(magnitude(x));
    return 4.0F * rest * (1.0F - rest);
}

inline float situ(float gate, float up, const GatedRule& rule) {
    const float g = rule.gate_bound * tanh_of(gate * rule.gate_inverse) * sigmoid(gate);
    return g * (rule.bounds_up ? rule.up_bound * tanh_of(up * rule.up_inverse) : up);
}

inline constexpr float geglu_linear = 1.5957691216F, geglu_cubic = 0.0713548163F;  // 2 sqrt(2 / pi), 0.044715 times it

inline float geglu(float gate, float up) {
    return gate * sigmoid(gate * fused(geglu_cubic, gate * gate, geglu_linear)) * up;
}

/// h of a feature. Units without an up do not read it.
template <Unit unit>
inline float gated(float gate, float up, const GatedRule& rule) {
    if constexpr (unit == Unit::swiglu) return swiglu(gate, up, rule.swiglu);
    if constexpr (unit == Unit::situ) return situ(gate, up, rule);
    if constexpr (unit == Unit::geglu) return geglu(gate, up);
    const float positive = at_least(gate, 0.0F);
    return positive * positive;
}

/// The derivatives of h by gate and by up, times the gradient of h.
using GatedGradient = SwiGluGradient;

inline GatedGradient situ_gradient(float gate, float up, float gradient, const GatedRule& rule) {
    const float scaled_gate = gate * rule.gate_inverse, scaled_up = up * rule.up_inverse;
    const float bounded = rule.gate_bound * tanh_of(scaled_gate), share = sigmoid(gate);
    const float slope = tanh_slope(scaled_gate) * share + bounded * share * (1.0F - share);
    const float bounded_up = rule.bounds_up ? rule.up_bound * tanh_of(scaled_up) : up;
    const float up_slope = rule.bounds_up ? tanh_slope(scaled_up) : 1.0F;
    return {.gate = gradient * bounded_up * slope, .up = gradient * (bounded * share * up_slope)};
}

/// Beyond 16 neither the sigmoid nor the slope changes, and the square of a larger gate may be infinite.
inline GatedGradient geglu_gradient(float gate, float up, float gradient) {
    const float g = at_least(at_most(gate, 16.0F), -16.0F), square = g * g;
    const float share = sigmoid(g * fused(geglu_cubic, square, geglu_linear));
    const float slope = share + g * share * (1.0F - share) * fused(3.0F * geglu_cubic, square, geglu_linear);
    return {.gate = gradient * up * slope, .up = gradient * (gate * share)};
}

/// Units without an up do not read it; its gradient is 0. For ReLU, 0 is added because of a gate of -0: the maximum of
/// -0 and 0 is 0 on a GPU and -0 on a CPU.
template <Unit unit>
inline GatedGradient gated_gradient(float gate, float up, float gradient, const GatedRule& rule) {
    if constexpr (unit == Unit::swiglu) return swiglu_gradient(gate, up, gradient, rule.swiglu);
    if constexpr (unit == Unit::situ) return situ_gradient(gate, up, gradient, rule);
    if constexpr (unit == Unit::geglu) return geglu_gradient(gate, up, gradient);
    return {.gate = gradient * (at_least(gate, 0.0F) + 0.0F) * 2.0F, .up = 0.0F};
}

}  // namespace tilewright::formats
