// The CPU arithmetic `bit_exact`: bit for bit the results of a Hopper GPU (docs/numerics.md).
#pragma once

#include "cpu/isa.h"
#include "problem/geometry.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace tilewright::cpu {

struct ExactOptions {
    int threads = 0;                    // 0: OpenMP's choice.
    std::function<bool()> cancelled{};  // As in RunOptions.
    /// The positions at which the GPU's plan splits k: ascending multiples of 128, counted from the beginning of each
    /// GEMM. Positions beyond a GEMM's end have no effect. Each slice is summed from zero; the sums are added in
    /// ascending k.
    std::span<const std::int64_t> k_splits{};
    /// For tests: the instruction level; if empty, the best of this CPU. All levels return the same bits.
    std::optional<Isa> isa{};
};

/// Throws std::invalid_argument for recipes without a canonical order (f16 and f32 operands).
void run_exact(const Geometry& geometry, const ExactOptions& options = {});

}  // namespace tilewright::cpu
