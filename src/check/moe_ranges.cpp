#include "check/moe_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/element.h"

namespace tilewright::check {
namespace {

// The relative error of a result in f32: exponentials of rounded arguments up to 87 lose most, 87 * 2^-24.
constexpr double unit_error = 0x1p-16;
// The same of a scale, and of a division by it.
constexpr double scale_error = 0x1p-22;
// The slope of x sigmoid(a x), of x Phi(x) and of their bounded forms is at most this.
constexpr double gate_slope = 1.13;

double nearest(Format format, double number) {
    std::array<std::byte, 8> bytes{};
    formats::store(bytes.data(), format, 0, number);
    return formats::load(bytes.data(), format, 0);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

NumberRange clamped(const NumberRange& x, double low, double high) {
    return {std::clamp(x.value, low, high), std::clamp(x.low, low, high), std::clamp(x.high, low, high)};
}

double gate_function(const GatedUnit& unit, double x) {
    switch (unit.kind) {
        case GatedUnit::Kind::swiglu: return x * sigmoid(unit.swiglu.alpha * x);
        case GatedUnit::Kind::situ: return unit.gate_bound * std::tanh(x / unit.gate_bound) * sigmoid(x);
        case GatedUnit::Kind::geglu:
            return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x)));
        case GatedUnit::Kind::relu_squared: return std::max(x, 0.0) * std::max(x, 0.0);
    }
    return 0;
}

double up_function(const GatedUnit& unit, double x) {
    switch (unit.kind) {
        case GatedUnit::Kind::swiglu: return x + unit.swiglu.beta;
        case GatedUnit::Kind::situ:
            return std::isfinite(unit.up_bound) ? unit.up_bound * std::tanh(x / unit.up_bound) : x;
        case GatedUnit::Kind::geglu: return x;
        case GatedUnit::Kind::relu_squared: return 1;
    }
    return 0;
}

double largest_of(Format format) { return format == Format::e4m3 ? 448 : format == Format::e5m2 ? 57344 : 6; }

double power_of_two_above(double x) { return std::exp2(std::ceil(std::log2(x))); }

double scale_of(double largest, const QuantizeOptions& options) {
    const OperandRecipe& recipe = options.recipe;
    const double most = largest_of(recipe.values);
    if (recipe.granularity == Granularity::block_1x32) {
        const double emax = recipe.values == Format::e4m3 ? 8 : recipe.values == Format::e5m2 ? 15 : 2;
        if (options.round_up) return std::max(power_of_two_above(largest / most), 0x1p-127);
        return std::max(std::exp2(std::floor(std::log2(largest)) - emax), 0x1p-127);
    }
    const double scale = std::max(largest / most, 0x1p-126);
    return options.round_up || recipe.scales == Format::ue8m0 ? power_of_two_above(scale) : scale;
}

double nvfp4_tensor_scale(double largest, const QuantizeOptions& options) {
    if (options.round_up) return power_of_two_above(std::max(largest / (256 * 6), 0x1p-117));
    return std::max(largest / (448 * 6), 0x1p-117);
}

double nvfp4_block_scale(double largest, double tensor_scale, const QuantizeOptions& options) {
    const double block = std::clamp(largest / 6 / tensor_scale, 0x1p-9, 448.0);
    return options.round_up ? power_of_two_above(block) : nearest(Format::ue4m3, block);
}

/// A block's scale times that of its tensor.
NumberRange nvfp4_scale(const NumberRange& largest, const NumberRange& of_tensor, const QuantizeOptions& options) {
    const NumberRange tensor{nvfp4_tensor_scale(of_tensor.value, options), nvfp4_tensor_scale(of_tensor.low, options),
                             nvfp4_tensor_scale(of_tensor.high, options)};
    return {nvfp4_block_scale(largest.value, tensor.value, options) * tensor.value,
            nvfp4_block_scale(largest.low, tensor.high, options) * tensor.low,
            nvfp4_block_scale(largest.high, tensor.low, options) * tensor.high};
}

NumberRange widened(const NumberRange& x, double relative) {
    return {x.value, x.low - std::abs(x.low) * relative, x.high + std::abs(x.high) * relative};
}

/// encode(x / scale) * scale for the numbers and scales of two ranges. An end of the result has the smaller or larger
/// scale, by its sign.
NumberRange coded(Format format, const NumberRange& number, const NumberRange& scale) {
    const auto end = [&](double x, bool upper) {
        const double divisor = upper == (x >= 0) ? scale.low : scale.high;
        const double factor = upper == (x >= 0) ? scale.high : scale.low;
        return nearest(format, x / divisor) * factor;
    };
    const NumberRange wide = widened(number, scale_error);
    return {nearest(format, number.value / scale.value) * scale.value, end(wide.low, false), end(wide.high, true)};
}

/// For scales that are powers of two: one after another, because between them there is none.
NumberRange coded_by_powers(Format format, const NumberRange& number, const NumberRange& scale) {
    NumberRange result = coded(format, number, {scale.value, scale.low, scale.low});
    for (double power = scale.low * 2; power <= scale.high; power *= 2) {
        const NumberRange other = coded(format, number, {scale.value, power, power});
        result.low = std::min(result.low, other.low);
        result.high = std::max(result.high, other.high);
    }
    return result;
}

/// The largest magnitude of some numbers.
NumberRange largest(const std::vector<NumberRange>& numbers, std::size_t begin, std::size_t end) {
    NumberRange most;
    for (std::size_t i = begin; i < end; ++i) {
        const auto& [value, low, high] = numbers[i];
        most.value = std::max(most.value, std::abs(value));
        const double least = low > 0 ? low : high < 0 ? -high : 0;
        most.low = std::max(most.low, least);
        most.high = std::max({most.high, -low, high});
    }
    return widened(most, scale_error);
}

class Quantizer {
public:
    Quantizer(const std::vector<NumberRange>& numbers, const QuantizeOptions& options)
        : numbers_(numbers), options_(options), result_(numbers.size()) {}

    /// Numbers that share a scale; `of_tensor`: of all that share NVFP4's second one.
    void quantize(std::size_t begin, std::size_t end, const NumberRange& of_tensor = {}) {
        const NumberRange most = largest(numbers_, begin, end);
        if (most.high == 0) return;
        const bool nvfp4 = options_.recipe.granularity == Granularity::block_1x16;
        const NumberRange scale = nvfp4 ? nvfp4_scale(most, of_tensor, options_)
                                        : NumberRange{most.value > 0 ? scale_of(most.value, options_) : 1,
                                                      scale_of(most.low, options_), scale_of(most.high, options_)};
        const bool powers = options_.recipe.scales == Format::ue8m0 || options_.round_up;
        for (std::size_t i = begin; i < end; ++i) {
            result_[i] = powers ? coded_by_powers(options_.recipe.values, numbers_[i], scale)
                                : coded(options_.recipe.values, numbers_[i], scale);
        }
    }

    NumberRange largest_of(std::size_t begin, std::size_t end) const { return largest(numbers_, begin, end); }
    std::vector<NumberRange> take() { return std::move(result_); }

private:
    const std::vector<NumberRange>& numbers_;
    const QuantizeOptions& options_;
    std::vector<NumberRange> result_;
};

}  // namespace

NumberRange rounded_range(Format format, const NumberRange& range) {
    return {nearest(format, range.value), nearest(format, range.low), nearest(format, range.high)};
}

NumberRange unit_of(const GatedUnit& unit, const NumberRange& gate, const NumberRange& up) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double limit = unit.kind == GatedUnit::Kind::swiglu ? double{unit.swiglu.limit} : infinity;
    const NumberRange g = clamped(gate, -infinity, limit), u = clamped(up, -limit, limit);
    const double f = gate_function(unit, g.center()), r = g.radius();
    const bool squared = unit.kind == GatedUnit::Kind::relu_squared;
    const double f_radius = squared ? (2 * std::max(g.center(), 0.0) + r) * r : gate_slope * r;
    const double factor = up_function(unit, u.center()), factor_radius = squared ? 0 : u.radius();
    const double radius = f_radius * (std::abs(factor) + factor_radius) + std::abs(f) * factor_radius;
    const double all = radius + (std::abs(f * factor) + radius) * unit_error + 0x1p-120;
    return {gate_function(unit, g.value) * up_function(unit, u.value), f * factor - all, f * factor + all};
}

std::vector<NumberRange> quantized(const std::vector<NumberRange>& numbers, std::int64_t columns,
                                   std::int64_t rows_per_matrix, const QuantizeOptions& options) {
    const Granularity granularity = options.recipe.granularity;
    if (granularity == Granularity::none) {
        std::vector<NumberRange> result;
        result.reserve(numbers.size());
        for (const NumberRange& number : numbers) result.push_back(rounded_range(options.recipe.values, number));
        return result;
    }
    Quantizer quantizer(numbers, options);
    const auto row = static_cast<std::size_t>(columns), matrix = row * static_cast<std::size_t>(rows_per_matrix);
    const std::size_t block = granularity == Granularity::tensor ? matrix
                              : granularity == Granularity::row  ? row
                                                                 : static_cast<std::size_t>(k_block(granularity));
    for (std::size_t begin = 0; matrix > 0 && begin < numbers.size(); begin += matrix) {
        if (granularity == Granularity::tensor) {
            quantizer.quantize(begin, begin + matrix);
            continue;
        }
        const NumberRange of_tensor = quantizer.largest_of(begin, begin + matrix);
        for (std::size_t at = begin; at < begin + matrix; at += row) {
            for (std::size_t k = 0; k < row; k += block) {
                quantizer.quantize(at + k, at + std::min(k + block, row), of_tensor);
            }
        }
    }
    return quantizer.take();
}

}  // namespace tilewright::check
