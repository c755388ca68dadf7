#include "cpu/exact/tensor_core.h"

#include "cpu/exact/tensor_core_limits.h"
#include "formats/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace tilewright::cpu {
namespace {

/// (-1)^negative * significand * 2^(exponent - fraction_bits). Not normalised: a subnormal has its format's smallest
/// exponent, a product the sum of its factors' exponents.
struct Number {
    std::int64_t significand = 0;
    int exponent = 0;
    int fraction_bits = 0;
    bool negative = false;
};

bool is_special(float value) { return !std::isfinite(value); }

std::uint32_t code_at(const void* bytes, Format format, int index) {
    const auto* code = static_cast<const std::uint8_t*>(bytes) + std::ptrdiff_t{index} * (bits(format) / 8);
    return format == Format::bf16 ? code[0] | std::uint32_t{code[1]} << 8 : code[0];
}

Number number(const formats::Fields& f, std::uint32_t code) {
    const int field = static_cast<int>(code >> f.mantissa_bits & f.exponent_mask());
    const std::uint32_t hidden = field == 0 ? 0U : 1U << f.mantissa_bits;
    return {.significand = std::int64_t{hidden | (code & f.mantissa_mask())},
            .exponent = std::max(field - f.bias, f.smallest_exponent()),
            .fraction_bits = f.mantissa_bits,
            .negative = (code & f.sign_bit()) != 0};
}

Number product(const Number& a, const Number& b) {
    return {a.significand * b.significand, a.exponent + b.exponent, a.fraction_bits + b.fraction_bits,
            a.negative != b.negative};
}

/// The number in units of 2^unit, truncated toward zero. (A zero's exponent may be far above the largest.)
std::int64_t cut(const Number& x, int unit) {
    const int drop = unit - (x.exponent - x.fraction_bits);
    const std::int64_t magnitude =
        drop <= 0 ? x.significand << std::min(-drop, 63) : x.significand >> std::min(drop, 63);
    return x.negative ? -magnitude : magnitude;
}

/// c + sum of the products.
float add(std::span<const Number> addends, const Adder& adder) {
    int largest = smallest_largest_exponent;
    for (const Number& x : addends) {
        if (x.significand != 0) largest = std::max(largest, x.exponent);
    }
    const int unit = largest - adder.kept_below;
    std::int64_t sum = 0;
    for (const Number& x : addends) sum += cut(x, unit);

    // Truncated toward zero once more: to the accumulator's significant bits, and to fp32's smallest subnormal, 2^-149.
    const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
    const int drop = std::max({static_cast<int>(std::bit_width(magnitude)) - adder.kept_of_result, -149 - unit, 0});
    const double value = std::ldexp(static_cast<double>(magnitude >> drop << drop), unit);
    return static_cast<float>(sum < 0 && value != 0 ? -value : value);  // beyond fp32: infinity
}

}  // namespace

float TensorCore::add_products(const void* a_bytes, const void* b_bytes, float c) const {
    const formats::Fields& a_fields = formats::fields(a);
    const formats::Fields& b_fields = formats::fields(b);
    std::array<Number, 33> addends{};
    float specials = is_special(c) ? c : 0;  // infinities and NaN follow IEEE, whatever the finite addends are
    for (int k = 0; k < step(); ++k) {
        const std::uint32_t a_code = code_at(a_bytes, a, k);
        const std::uint32_t b_code = code_at(b_bytes, b, k);
        const float x = formats::decode(a_fields, a_code);
        const float y = formats::decode(b_fields, b_code);
        if (is_special(x) || is_special(y)) specials += x * y;
        addends[k] = product(number(a_fields, a_code), number(b_fields, b_code));
    }
    if (std::isnan(specials)) return std::bit_cast<float>(0x7FFF'FFFFU);
    if (is_special(specials)) return specials;
    addends[step()] = number(formats::f32_fields, std::bit_cast<std::uint32_t>(c));
    return add(addends, a == Format::bf16 ? bf16_adder : fp8_adder);
}

float TensorCore::chain(const void* a_bytes, const void* b_bytes, std::size_t steps, float c) const {
    const auto* a_step = static_cast<const std::byte*>(a_bytes);
    const auto* b_step = static_cast<const std::byte*>(b_bytes);
    for (std::size_t i = 0; i < steps; ++i) c = add_products(a_step + i * 32, b_step + i * 32, c);
    return c;
}

}  // namespace tilewright::cpu
