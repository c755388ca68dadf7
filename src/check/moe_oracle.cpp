#include "check/moe_oracle.h"

#include <fmt/format.h>
#include <tilewright/quantize.h>

#include <algorithm>
#include <cmath>

#include "check/limits.h"
#include "check/moe_ranges.h"
#include "check/moe_rows.h"
#include "formats/recipe_of.h"

namespace tilewright::check {
namespace {

constexpr double f32_roundoff = 0x1p-24;

/// Weights [E, n, k] as f32; a product of value and scales that needs more bits is rounded to it.
std::vector<float> decoded(const Operand& operand, const Dims& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::vector<float> numbers(static_cast<std::size_t>(count));
    dequantize(operand, row_major(static_cast<void*>(numbers.data()), Format::f32, shape));
    return numbers;
}

/// The error of a sum of k products, over the sum of their magnitudes: that of the arithmetic, and of `decoded`.
double sum_error(const Moe& layer, std::int64_t k) {
    const Operand& weights = layer.up;
    const OperandRecipe b = weights.packed.given() ? weights.packed.recipe : recipe_of(weights);
    const bool exact = layer.arithmetic == Arithmetic::bit_exact || layer.reproducibility == Reproducibility::invariant;
    const ErrorClass kind =
        error_class({layer.activations, b}, layer.accumulation, exact ? Arithmetic::bit_exact : Arithmetic::fast);
    return std::max(limits(kind, k).magnitude, limits(ErrorClass::fp32, k).magnitude) + 2 * f32_roundoff;
}

class LayerOracle {
public:
    LayerOracle(const Moe& layer, const std::vector<float>& addend)
        : layer_(layer), addend_(addend), shape_(moe_shape(layer)), rows_(moe_rows(layer)) {}

    MoeExpected result() {
        const std::vector<NumberRange> gate_up =
            multiplied(rows_of_x(), shape_.hidden, layer_.up, layer_.up_bias, shape_.up_rows);
        const std::vector<NumberRange> y =
            multiplied(activated(gate_up), shape_.inner, layer_.down, layer_.down_bias, shape_.hidden);
        return summed(y);
    }

private:
    QuantizeOptions options() const { return {.recipe = layer_.activations, .round_up = layer_.round_up}; }

    /// Exact ranges: `quantize` decides what the codes are.
    std::vector<NumberRange> rows_of_x() const {
        const bool weighted = layer_.weights_at == WeightsAt::input;
        const bool quantizes_rows = weighted || !layer_.routing.experts.given();
        std::vector<float> x = layer_.quantized.values.given()
                                   ? decoded(layer_.quantized, layer_.quantized.values.shape)
                               : quantizes_rows ? numbers_of(layer_.x)
                                                : quantized_numbers(numbers_of(layer_.x), layer_.x.shape);
        std::vector<float> rows(rows_.size() * static_cast<std::size_t>(shape_.hidden));
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (rows_[i].expert < 0) continue;
            for (std::int64_t j = 0; j < shape_.hidden; ++j) {
                const float number = x[at(rows_[i].source, j, shape_.hidden)];
                rows[at(static_cast<std::int64_t>(i), j, shape_.hidden)] = weighted ? number * rows_[i].weight : number;
            }
        }
        if (quantizes_rows && !layer_.quantized.values.given()) {
            rows = quantized_numbers(rows, shape_.matrix(shape_.hidden));
        }
        std::vector<NumberRange> ranges;
        ranges.reserve(rows.size());
        for (const float number : rows) ranges.push_back({number, number, number});
        return ranges;
    }

    std::vector<float> quantized_numbers(const std::vector<float>& numbers, const Dims& shape) const {
        const OwnedOperand codes = quantize(row_major(numbers.data(), Format::f32, shape), options());
        return decoded(codes, shape);
    }

    static std::size_t at(std::int64_t row, std::int64_t column, std::int64_t columns) {
        return static_cast<std::size_t>(row * columns + column);
    }

    /// bf16(a b^T + bias).
    std::vector<NumberRange> multiplied(const std::vector<NumberRange>& a, std::int64_t k, const Operand& b,
                                        const Tensor& bias, std::int64_t n) const {
        const std::vector<float> weights = decoded(b, {shape_.experts, n, k});
        const std::vector<float> biases = bias.given() ? numbers_of(bias) : std::vector<float>{};
        const double relative = sum_error(layer_, k);
        std::vector<NumberRange> d(rows_.size() * static_cast<std::size_t>(n));
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const std::int64_t expert = rows_[row].expert;
            for (std::int64_t column = 0; column < n && expert >= 0; ++column) {
                const NumberRange* const of_a = a.data() + row * static_cast<std::size_t>(k);
                const float* const of_b = weights.data() + at(expert * n + column, 0, k);
                double value = 0, sum = 0, magnitude = 0, unknown = 0;
                for (std::int64_t i = 0; i < k; ++i) {
                    const double center = of_a[i].center(), weight = of_b[i];
                    value += of_a[i].value * weight;
                    sum += center * weight;
                    magnitude += std::abs(center * weight);
                    unknown += of_a[i].radius() * std::abs(weight);
                }
                const double bias_of = biases.empty() ? 0 : double{biases[at(expert, column, n)]};
                const double error = unknown + (magnitude + unknown) * relative +
                                     (std::abs(sum + bias_of) + std::abs(bias_of)) * f32_roundoff;
                d[at(static_cast<std::int64_t>(row), column, n)] =
                    rounded_range(Format::bf16, {value + bias_of, sum + bias_of - error, sum + bias_of + error});
            }
        }
        return d;
    }

    std::vector<NumberRange> activated(const std::vector<NumberRange>& gate_up) const {
        const bool has_up = layer_.unit.kind != GatedUnit::Kind::relu_squared;
        const bool interleaved = has_up && layer_.unit.swiglu.interleaved;
        std::vector<NumberRange> h(rows_.size() * static_cast<std::size_t>(shape_.inner));
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (rows_[i].expert < 0) continue;
            const NumberRange* const row = gate_up.data() + i * static_cast<std::size_t>(shape_.up_rows);
            for (std::int64_t j = 0; j < shape_.inner; ++j) {
                const NumberRange& gate = row[interleaved ? 2 * j : j];
                const NumberRange up = has_up ? row[interleaved ? 2 * j + 1 : shape_.inner + j] : NumberRange{};
                h[at(static_cast<std::int64_t>(i), j, shape_.inner)] =
                    weighted(unit_of(layer_.unit, gate, up), rows_[i].weight);
            }
        }
        const std::int64_t rows = shape_.rows.rank() == 2 ? shape_.rows[1] : shape_.rows[0];
        return quantized(h, shape_.inner, rows, options());
    }

    NumberRange weighted(const NumberRange& number, double weight) const {
        if (layer_.weights_at != WeightsAt::activation) return number;
        const double center = number.center() * weight;
        const double radius = (number.radius() + std::abs(number.center()) * f32_roundoff) * std::abs(weight);
        return {number.value * weight, center - radius, center + radius};
    }

    MoeExpected summed(const std::vector<NumberRange>& y) const {
        MoeExpected out;
        out.exact.assign(addend_.begin(), addend_.end());
        out.exact.resize(static_cast<std::size_t>(shape_.sources * shape_.hidden));
        std::vector<double> magnitudes(out.exact.size());
        std::transform(out.exact.begin(), out.exact.end(), magnitudes.begin(), [](double x) { return std::abs(x); });
        out.bound.resize(out.exact.size());
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (rows_[i].expert < 0) continue;
            const double weight = layer_.weights_at == WeightsAt::combine ? double{rows_[i].weight} : 1;
            for (std::int64_t j = 0; j < shape_.hidden; ++j) {
                const NumberRange& number = y[at(static_cast<std::int64_t>(i), j, shape_.hidden)];
                const std::size_t to = at(rows_[i].source, j, shape_.hidden);
                out.exact[to] += weight * number.value;
                out.bound[to] += std::abs(weight) * std::max(number.high - number.value, number.value - number.low);
                magnitudes[to] += std::abs(weight) * (std::abs(number.center()) + number.radius());
            }
        }
        const double roundings = static_cast<double>(shape_.choices) * f32_roundoff;
        for (std::size_t i = 0; i < out.bound.size(); ++i) out.bound[i] += roundings * magnitudes[i];
        return out;
    }

    const Moe& layer_;
    const std::vector<float>& addend_;
    MoeShape shape_;
    std::vector<MoeRow> rows_;
};

}  // namespace

double moe_relative_limit(Format activations, double of_bounds) {
    const double most = 0x1p-4;
    return std::max(activations == Format::e5m2 ? most : 0x1p-6, std::min(of_bounds, most));
}

MoeExpected expected(const Moe& layer, const std::vector<float>& addend) { return LayerOracle(layer, addend).result(); }

std::string MoeReport::text() const {
    return fmt::format(
        "{} of {} elements beyond the bound; {}: error {:.3g}, bound {:.3g}; relL2 {:.3g}, at most {:.3g}", failed,
        judged, where, error, bound, relative, relative_limit);
}

MoeReport judge(const MoeCase& test_case) {
    const Format format = test_case.spec().out;
    const MoeExpected want = expected(test_case.layer(), test_case.addend());
    const std::vector<float> out = numbers_of(test_case.layer().out);
    const std::vector<char> written = test_case.written_rows();
    const std::int64_t hidden = test_case.spec().hidden;
    const double roundoff = unit_roundoff(format), smallest = smallest_number(format);
    MoeReport report;
    double errors = 0, squares = 0, bounds = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / hidden;
        if (written[static_cast<std::size_t>(row)] == 0) continue;
        const double error = std::abs(out[i] - want.exact[i]);
        const double bound = roundoff * (std::abs(want.exact[i]) + want.bound[i]) + want.bound[i] + smallest;
        ++report.judged;
        if (!(error <= bound)) ++report.failed;
        errors += error * error;
        squares += want.exact[i] * want.exact[i];
        bounds += want.bound[i] * want.bound[i];
        if (error / bound <= report.ratio) continue;
        report.where = fmt::format("row {}, column {}", row, static_cast<std::int64_t>(i) % hidden);
        report.error = error;
        report.bound = bound;
        report.ratio = error / bound;
    }
    if (squares > 0) report.relative = std::sqrt(errors / squares);
    report.relative_limit =
        moe_relative_limit(test_case.layer().activations.values, squares > 0 ? std::sqrt(bounds / squares) : 0);
    return report;
}

}  // namespace tilewright::check
