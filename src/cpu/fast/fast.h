// The CPU arithmetic `fast`: fp32, in whatever order is fastest. It supports every operation and every recipe.
#pragma once

#include "cpu/isa.h"
#include "problem/geometry.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace tilewright::cpu {

/// The kernel that multiplies the decoded tiles of products with more than a few rows.
enum class Multiplier : std::uint8_t {
    built_in,  // the panel kernel of micro_kernels.h
    // sgemm on one thread per tile; falls back to built_in if no library is found.
    openblas,
};

struct FastOptions {
    int threads = 0;                    // 0: OpenMP's choice; the bits do not depend on it.
    std::function<bool()> cancelled{};  // As in RunOptions.
    // For tests and benchmarks.
    std::optional<Isa> isa{};                // If empty, the best of this CPU.
    std::optional<Multiplier> multiplier{};  // If empty, the faster one for the level.
};

void run_fast(const Geometry& geometry, const FastOptions& options = {});

}  // namespace tilewright::cpu
