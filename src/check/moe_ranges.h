// Numbers that are known only within a range, and what rounding and quantizing them can give. For oracles of several
// steps: a number that is not near a tie has one rounding, so that ranges stay narrow. Each range also has the value
// that exact arithmetic gives between the roundings.
#pragma once

#include <tilewright/moe.h>

#include <cstdint>
#include <vector>

namespace tilewright::check {

struct NumberRange {
    double value = 0;
    double low = 0;
    double high = 0;

    double center() const { return (low + high) / 2; }
    double radius() const { return (high - low) / 2; }
};

/// Value and ends, rounded to nearest.
NumberRange rounded_range(Format format, const NumberRange& range);

/// A unit's result in f32, whose error is at most 2^-16 of it.
NumberRange unit_of(const GatedUnit& unit, const NumberRange& gate, const NumberRange& up);

/// All that `quantize` and then dequantizing can give, for [rows, columns]. Each `rows_per_matrix` rows are a matrix,
/// which has one scale where the recipe has one for the whole tensor.
std::vector<NumberRange> quantized(const std::vector<NumberRange>& numbers, std::int64_t columns,
                                   std::int64_t rows_per_matrix, const QuantizeOptions& options);

}  // namespace tilewright::check
