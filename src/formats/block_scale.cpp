#include "formats/block_scale.h"

#include "formats/codec.h"
#include "formats/element.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewright::formats {
namespace {

constexpr std::int32_t infinity_bits = 0x7F80'0000;
constexpr float smallest_normal = power_of_two(-126);

float largest_value(Format format) { return decode(fields(format), fields(format).largest()); }

/// The smallest power of two that is not below `number`, within 2^-127 .. 2^127.
double power_above(double number) { return decode_ue8m0(encode_ue8m0(number, Rounding::up)); }
double power_below(double number) { return decode_ue8m0(encode_ue8m0(number, Rounding::down)); }

/// deep_gemm/utils/math.py of DeepGEMM: clamp(1e-4), / 448 (fp4: / 6), ceil_to_ue8m0, whose exponent is clamped to
/// 1..254, so that infinity and NaN give 2^127.
double deep_gemm_scale(const ScaleRule& rule, const Peak& peak) {
    const float amax = __builtin_bit_cast(float, peak.all);
    const float scale = (amax < 1e-4F ? 1e-4F : amax) / largest_value(rule.recipe.values);
    if (!rule.round_up && rule.recipe.scales == Format::f32) return scale;
    return std::isfinite(scale) ? power_above(scale) : double{power_of_two(127)};
}

double mx_scale(const ScaleRule& rule, float amax) {
    if (rule.round_up) return power_above(amax / double{largest_value(rule.recipe.values)});
    return power_below(amax / power_below(largest_value(rule.recipe.values)));
}

double nvfp4_scale(const ScaleRule& rule, float amax, float tensor_scale) {
    constexpr double smallest = decode_ue4m3(1);
    if (rule.round_up) return std::clamp(power_above(double{amax} / 6 / tensor_scale), smallest, 256.0);
    const float rounded = decode_ue4m3(encode_ue4m3(amax / 6.0F / tensor_scale));
    return std::max<double>(rounded, smallest);
}

double amax_scale(const ScaleRule& rule, float amax) {
    const float largest = largest_value(rule.recipe.values);
    const bool power = rule.round_up || rule.recipe.scales == Format::ue8m0;
    const double scale = power ? power_above(amax / double{largest}) : double{amax / largest};
    return std::max<double>(scale, smallest_normal);
}

/// DeepGEMM's fp4 cast rounds ties towards zero and writes no negative zero. NaN becomes 6.
void snap_as_deep_gemm(float* numbers, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const float magnitude = std::abs(numbers[i]);
        float snapped = 6;
        if (magnitude <= 5.0F) snapped = 4;
        if (magnitude <= 3.5F) snapped = 3;
        if (magnitude <= 2.5F) snapped = 2;
        if (magnitude <= 1.75F) snapped = 1.5F;
        if (magnitude <= 1.25F) snapped = 1;
        if (magnitude <= 0.75F) snapped = 0.5F;
        if (magnitude <= 0.25F) snapped = 0;
        numbers[i] = numbers[i] < 0 && snapped != 0 ? -snapped : snapped;
    }
}

}  // namespace

void Peak::include(const Peak& other) {
    all = std::max(all, other.all);
    finite = std::max(finite, other.finite);
}

void Peak::include(const float* numbers, std::int64_t count) {
    std::int32_t highest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        highest = std::max(highest, __builtin_bit_cast(std::int32_t, numbers[i]) & 0x7FFF'FFFF);
    }
    all = std::max(all, highest);
    if (highest >= infinity_bits) {
        highest = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int32_t magnitude = __builtin_bit_cast(std::int32_t, numbers[i]) & 0x7FFF'FFFF;
            if (magnitude < infinity_bits) highest = std::max(highest, magnitude);
        }
    }
    finite = std::max(finite, highest);
}

float ScaleRule::tensor_scale(const Peak& peak) const {
    const float amax = __builtin_bit_cast(float, peak.finite);
    if (amax == 0) return 1;
    const float scale = round_up ? static_cast<float>(power_above(double{amax} / (256 * 6))) : amax / (448.0F * 6.0F);
    // The smallest block scale is 2^-9, and its product with this one should be a normal number.
    return std::max(scale, power_of_two(-126 + 9));
}

double ScaleRule::scale(const Peak& peak, float tensor_scale) const {
    if (deep_gemm) return deep_gemm_scale(*this, peak);
    if (recipe.values == Format::e2m1 && !peak.is_finite()) return std::numeric_limits<double>::quiet_NaN();
    const float amax = __builtin_bit_cast(float, peak.finite);
    if (amax == 0) return 1;
    switch (recipe.granularity) {
        case Granularity::block_1x32: return mx_scale(*this, amax);
        case Granularity::block_1x16: return nvfp4_scale(*this, amax, tensor_scale);
        default: return amax_scale(*this, amax);
    }
}

void ScaleRule::divide(float* numbers, std::int64_t count, double scale, float tensor_scale) const {
    // Exact in double, so rounded once.
    const auto unit = static_cast<float>(scale * double{tensor_scale});
    if (!deep_gemm) {
        for (std::int64_t i = 0; i < count; ++i) numbers[i] = numbers[i] / unit;
        return;
    }
    const float reciprocal = 1.0F / unit;
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = numbers[i] * reciprocal;
    if (recipe.values == Format::e2m1) snap_as_deep_gemm(numbers, count);
}

}  // namespace tilewright::formats
