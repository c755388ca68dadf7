// The functions between the products of a layer of experts (tilewright/moe.h has the formulas). In f32, operation by
// operation, so that the CPU and the GPU return the same bits. C++20 without standard headers: device code includes it.
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

/// tanh within two last places. Below 0.625 a polynomial of x^2, because the exponential loses the last bits of small
/// numbers. Its coefficients are a Chebyshev fit of (tanh(x) / x - 1) / x^2.
inline float tanh_of(float x) {
    constexpr u32 sign = 0x8000'0000U;
    const u32 bits = __builtin_bit_cast(u32, x);
    const float size = __builtin_bit_cast(float, bits & ~sign);
    const float square = size * size;
    float sum = fused(square, -0.006104945205152035F, 0.021003639325499535F);
    sum = fused(square, sum, -0.05385249853134155F);
    sum = fused(square, sum, 0.13332782685756683F);
    sum = fused(square, sum, -0.333333283662796F);
    const float small = fused(size, square * sum, size);
    const float large = fused(-2.0F, reciprocal(one_and_exponential(at_most(2.0F * size, 87.0F))), 1.0F);
    const float result = size < 0.625F ? small : large;
    return __builtin_bit_cast(float, __builtin_bit_cast(u32, result) | (bits & sign));
}

inline float situ(float gate, float up, const GatedRule& rule) {
    const float g = rule.gate_bound * tanh_of(gate * rule.gate_inverse) * sigmoid(gate);
    return g * (rule.bounds_up ? rule.up_bound * tanh_of(up * rule.up_inverse) : up);
}

inline float geglu(float gate, float up) {
    constexpr float linear = 1.5957691216F, cubic = 0.0713548163F;  // 2 sqrt(2 / pi), and 0.044715 times it
    return gate * sigmoid(gate * fused(cubic, gate * gate, linear)) * up;
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

}  // namespace tilewright::formats
