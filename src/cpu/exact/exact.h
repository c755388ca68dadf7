// The CPU arithmetic `bit_exact`: bit for bit what a Hopper GPU returns (docs/numerics.md).
#pragma once

#include "cpu/isa.h"
#include "problem/geometry.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace tilewright::cpu {

struct ExactOptions {
    int threads = 0;                    // 0: OpenMP's own choice
    std::function<bool()> cancelled{};  // as in RunOptions
    /// Where the GPU's plan splits k: ascending multiples of 128, counted from the beginning of each GEMM; those
    /// beyond its end have no effect. Each slice is summed from zero; the sums are added in ascending k.
    std::span<const std::int64_t> k_splits{};
    /// For tests: the instruction level; without one the best this CPU has. All levels return the same bits.
    std::optional<Isa> isa{};
};

/// Throws std::invalid_argument for recipes without a canonical order (f16 and f32 operands).
void run_exact(const Geometry& geometry, const ExactOptions& options = {});

}  // namespace tilewright::cpu
