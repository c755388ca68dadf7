// The arithmetic `hopper` with its inner choices open: for tests, benchmarks and plans that split k.
#pragma once

#include "cpu/isa.h"
#include "problem/geometry.h"

#include <cstdint>
#include <optional>
#include <span>

namespace tilewright::cpu {

struct HopperOptions {
    int threads = 0;  // 0: OpenMP's own choice
    /// Where a plan splits k: ascending multiples of 128, counted from the beginning of each piece; those beyond its
    /// end have no effect. Each slice is summed from zero; the sums are added in ascending k.
    std::span<const std::int64_t> cuts{};
    /// The instruction level; without one the best this CPU has. All levels return the same bits.
    std::optional<Isa> isa{};
};

/// Throws std::invalid_argument for recipes without a canonical order (f16 and f32 operands).
void run_hopper(const Geometry& geometry, const HopperOptions& options);

}  // namespace tilewright::cpu
