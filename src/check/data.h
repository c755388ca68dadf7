// Fills the tensors of a case with numbers: values from a distribution, encoded with scales that fit them.
#pragma once

#include "check/case.h"

#include <vector>

namespace tilewright::check {

enum class Side : std::uint8_t { a, b };

/// Writes values, scales and tensor scale of one operand wherever a GEMM reads it, and nothing elsewhere.
void fill_operand(const CaseSpec& spec, const Geometry& geometry, const std::vector<GroupGemm>& gemms, Side side);

/// C at one place, before it is rounded to the output's format.
double c_value(const CaseSpec& spec, std::int64_t group, std::int64_t row, std::int64_t column);

inline constexpr int draw_bits = 16;
/// 2^draw_bits draws of a random distribution; data picks from them by a hash of the position.
const std::vector<float>& draws(Distribution distribution);

/// exact_grid: the largest integer among the values, chosen so that no sum rounds. Sums of k products of independent
/// signs stay below 12 sqrt(k) times the largest product, except with a chance of 2 exp(-72) (Hoeffding). Long
/// contractions therefore need not shrink to nothing.
int grid_amplitude(const CaseSpec& spec);

}  // namespace tilewright::check
