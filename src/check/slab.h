// Some rows of one operand over a stretch of k, decoded: as float64 with their scales, and as the tensor core sees
// them.
#pragma once

#include "check/step.h"
#include "problem/canonical_order.h"
#include "problem/geometry.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tilewright::check {

/// NVFP4's values are multiplied by this factor first (docs/numerics.md).
inline constexpr float nvfp4_below = 0x1p-8F;

/// k that is decoded at a time: a multiple of every chain.
inline constexpr std::int64_t slab_k = 512;
/// Scales are stored per 32 k-elements, which divides every chain.
inline constexpr std::int64_t slab_scale_k = 32;

struct SlabRange {
    const OperandGeometry& operand;
    std::int64_t group = 0;
    std::int64_t row = 0;  // of the logical operand
    std::int64_t rows = 0;
    Origin origin{};     // of the GEMM
    std::int64_t k = 0;  // from the GEMM's beginning, a multiple of slab_k
    std::int64_t k_count = 0;
};

/// All arrays are [rows, slab_k] (scales: [rows, slab_k / slab_scale_k]), zero after k_count.
struct Slab {
    std::vector<double> exact;            // value times scale
    std::vector<float> values;            // the tensor core's inputs
    std::vector<std::int32_t> exponents;  // and their exponents
    std::vector<float> scales;            // applied outside the tensor core
    std::vector<std::uint8_t> special;    // [rows]: holds infinities or NaN

    StepRow step_row(std::int64_t row, std::int64_t k) const {
        return {.values = values.data() + row * slab_k + k,
                .exponents = exponents.data() + row * slab_k + k,
                .special = special[static_cast<std::size_t>(row)] != 0};
    }
    float scale(std::int64_t row, std::int64_t k) const {
        return scales[static_cast<std::size_t>(row * (slab_k / slab_scale_k) + k / slab_scale_k)];
    }
};

/// Without a step (f16, f32): only `exact` and `scales`.
void decode(const SlabRange& range, std::optional<StepKind> step, Slab& slab);

}  // namespace tilewright::check
