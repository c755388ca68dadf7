// How a conversion changes numbers: their relative error, and how many stop being numbers.
#pragma once

#include <tilewright/quantize.h>

#include <cstdint>
#include <vector>

namespace tilewright::safetensors {

/// An operand [rows, k], dequantized to f32. The largest and smallest numbers (e4m3 times a scale of 1e38 or 1e-45) are
/// outside f32. `numbers` may then be infinite, or zeros, where the operand is not.
std::vector<float> numbers_of(const Operand& operand);

class Comparison {
public:
    /// Adds rows and their converted form; `numbers` are those of the original rows.
    void add(const Operand& before, const std::vector<float>& numbers, const Operand& after);

    /// ||after - before|| / ||before|| of numbers that are finite before and after; 0: the same numbers.
    double error() const;

    std::uint64_t count = 0;
    std::uint64_t lost = 0;     // finite only before the conversion
    std::uint64_t changed = 0;  // NaN or infinite in the input, different after

private:
    template <class Number>
    void add(const std::vector<Number>& before, const std::vector<Number>& after);

    double errors_ = 0;
    double squares_ = 0;
};

}  // namespace tilewright::safetensors
