// One step of Hopper's tensor core, with a bound on how much its cuts may have changed the sum. The running bound is
// made of these. Written from docs/numerics.md, independently of src/cpu; tests hold both to the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tilewright::check {

/// The exponent of a zero, which has none: below every other, also in a sum of two.
inline constexpr std::int32_t no_exponent = -100000;

/// The largest exponent of a step's addends counts as at least this.
inline constexpr std::int32_t smallest_largest_exponent = -133;

/// 2^exponent as a double, for -1022 <= exponent <= 1023.
inline double exact_power(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

inline std::int32_t exponent_of(float value, int smallest) {
    const auto field = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(value) >> 23 & 255U);
    return value == 0 ? no_exponent : (field - 127 < smallest ? smallest : field - 127);
}

/// Values and exponents (not below the smallest of the format that is multiplied) of one row, at the step's first k.
struct StepRow {
    const float* values = nullptr;
    const std::int32_t* exponents = nullptr;
    bool special = false;  // may hold infinities or NaN
};

/// The sum by IEEE rules if any addend is infinite or NaN; zero if none is.
template <int products>
float special_sum(const StepRow& a, const StepRow& b, float c) {
    double sum = std::isfinite(c) ? 0 : c;
    for (int i = 0; i < products; ++i) {
        if (!std::isfinite(a.values[i]) || !std::isfinite(b.values[i])) sum += double{a.values[i]} * b.values[i];
    }
    return static_cast<float>(sum);
}

/// c + sum of the products. Adds to `bound` what the cuts can have taken: (terms cut) * u + r. Terms are cut to the
/// unit u; r is the result's unit if it was cut. fp8: 32 products; bf16: 16.
template <int products>
float measured_step(const StepRow& a, const StepRow& b, float c, double& bound) {
    // Holds products and terms exactly: of fp8 8 bits and 16, of bf16 16 bits, 28, and exponents beyond fp32's.
    using Term = std::conditional_t<products == 32, float, double>;
    using Sum = std::conditional_t<products == 32, std::int32_t, std::int64_t>;
    constexpr int kept_below = products == 32 ? 13 : 25;
    constexpr int kept_of_result = products == 32 ? 14 : 24;
    if (a.special || b.special || !std::isfinite(c)) {
        const float special = special_sum<products>(a, b, c);
        if (!std::isfinite(special)) return special;
    }
    std::int32_t largest = exponent_of(c, -126);
    for (int i = 0; i < products; ++i) {
        const std::int32_t exponent = a.exponents[i] + b.exponents[i];
        largest = exponent > largest ? exponent : largest;
    }
    if (largest <= no_exponent) return 0;
    const int unit = (largest < smallest_largest_exponent ? smallest_largest_exponent : largest) - kept_below;
    // Where fp32 could not hold the scale of fp8 terms, all products are zero.
    const auto scale = static_cast<Term>(exact_power(products == 32 && unit < -120 ? 120 : -unit));
    Sum sum = 0;
    std::int32_t cut_terms = 0;
    const auto add = [&](auto term) {
        const auto kept = static_cast<std::int32_t>(term);  // toward zero
        sum += kept;
        cut_terms += static_cast<decltype(term)>(kept) != term ? 1 : 0;
    };
    for (int i = 0; i < products; ++i) add(Term{a.values[i]} * b.values[i] * scale);
    add(c * exact_power(-unit));

    const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
    int drop = static_cast<int>(std::bit_width(magnitude)) - kept_of_result;
    drop = drop < -149 - unit ? -149 - unit : drop;
    drop = drop < 0 ? 0 : (drop > 63 ? 63 : drop);
    const std::uint64_t kept = magnitude >> drop << drop;
    bound += cut_terms * exact_power(unit) + (kept != magnitude ? exact_power(unit + drop) : 0);
    const auto result = static_cast<float>(static_cast<double>(kept) * exact_power(unit));
    return sum < 0 && kept != 0 ? -result : result;
}

}  // namespace tilewright::check
