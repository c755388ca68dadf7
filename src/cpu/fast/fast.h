// The CPU arithmetic `fast`: fp32, in whatever order is fastest. Every operation, every recipe.
#pragma once

#include "cpu/isa.h"
#include "problem/geometry.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace tilewright::cpu {

/// What multiplies the decoded tiles of products with more than a few rows.
enum class Multiplier : std::uint8_t {
    built_in,  // the panel kernel of micro_kernels.h
    openblas,  // sgemm on one thread for each tile; falls back to built_in where no library is found
};

struct FastOptions {
    int threads = 0;                    // 0: OpenMP's own choice; the bits do not depend on it
    std::function<bool()> cancelled{};  // as in RunOptions
    // For tests and benchmarks.
    std::optional<Isa> isa{};                // without one the best this CPU has
    std::optional<Multiplier> multiplier{};  // without one the faster for the level
};

void run_fast(const Geometry& geometry, const FastOptions& options = {});

}  // namespace tilewright::cpu
