#include "safetensors/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/element.h"

namespace tilewright::safetensors {
namespace {

double tensor_scale(const Operand& operand) {
    return operand.tensor_scale.given() ? formats::load(operand.tensor_scale.data, Format::f32, 0) : 1;
}

std::int64_t count_of(const Tensor& tensor) {
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    return count;
}

/// Whether each number is exact in f32, or rounded as a normal number. Powers of two that are small lose nothing:
/// e5m2's 2^-16 times 2^-127 is a subnormal number of f32.
bool has_regular_scales(const Operand& operand) {
    if (!operand.scales.given()) return true;
    constexpr double most = 0x1p100;
    const double least = operand.scales.format == Format::ue8m0 ? 0 : 1 / most;
    const double over = tensor_scale(operand);
    for (std::int64_t i = 0; i < count_of(operand.scales); ++i) {
        const double scale = std::abs(formats::load(operand.scales.data, operand.scales.format, i) * over);
        if (!(scale == 0 || (scale >= least && scale <= most))) return false;  // NaN too
    }
    return true;
}

/// Exact, as a product of a code of 4 bits, a block scale of 4 and a tensor scale of 24 is in 53.
std::vector<double> exact_numbers_of(const Operand& operand) {
    const std::int64_t rows = operand.values.shape[0];
    const std::int64_t k = operand.values.shape[1];
    const std::int64_t of_k = std::max(k_block(operand.granularity), 0);
    const std::int64_t of_rows = row_block(operand.granularity);
    const std::int64_t columns = of_k == 0 ? 1 : (k + of_k - 1) / of_k;
    const double over = tensor_scale(operand);
    std::vector<double> numbers;
    numbers.reserve(static_cast<std::size_t>(rows * k));
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < k; ++i) {
            double number = formats::load(operand.values.data, operand.values.format, row * k + i);
            if (operand.scales.given()) {
                const std::int64_t line = of_rows == 0 ? 0 : row / of_rows;
                const std::int64_t column = of_k == 0 ? 0 : i / of_k;
                number *= formats::load(operand.scales.data, operand.scales.format, line * columns + column);
            }
            numbers.push_back(number * over);
        }
    }
    return numbers;
}

/// The same, or both numbers.
bool are_alike(double before, double after) {
    const bool both_finite = std::isfinite(before) && std::isfinite(after);
    return both_finite || before == after || (std::isnan(before) && std::isnan(after));
}

}  // namespace

std::vector<float> numbers_of(const Operand& operand) {
    const Dims& shape = operand.values.shape;
    std::vector<float> numbers(static_cast<std::size_t>(shape[0] * shape[1]));
    dequantize(operand, row_major(numbers.data(), Format::f32, shape));
    return numbers;
}

template <class Number>
void Comparison::add(const std::vector<Number>& before, const std::vector<Number>& after) {
    count += before.size();
    for (std::size_t i = 0; i < before.size(); ++i) {
        const double difference = double{after[i]} - before[i];
        if (std::isfinite(difference)) {
            errors_ += difference * difference;
            squares_ += double{before[i]} * before[i];
        } else if (!are_alike(before[i], after[i])) {
            ++(std::isfinite(before[i]) ? lost : changed);
        }
    }
}

void Comparison::add(const Operand& before, const std::vector<float>& numbers, const Operand& after) {
    if (has_regular_scales(before) && has_regular_scales(after)) return add(numbers, numbers_of(after));
    add(exact_numbers_of(before), exact_numbers_of(after));
}

double Comparison::error() const {
    if (squares_ == 0) return errors_ == 0 ? 0 : std::numeric_limits<double>::infinity();
    return std::sqrt(errors_ / squares_);
}

}  // namespace tilewright::safetensors
