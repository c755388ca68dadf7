// The end of a GEMM in the canonical order: the scales that do not vary along k, alpha and C, the one rounding.
#pragma once

#include "cpu/exact/folded.h"
#include "problem/geometry.h"

#include <cstdint>
#include <span>

namespace tilewright::cpu {

/// Rows and columns of D within one GEMM.
struct TilePlace {
    GroupGemm gemm;
    std::int64_t row = 0;
    std::int64_t rows = 0;
    std::int64_t column = 0;
    std::int64_t columns = 0;
};

struct TileSums {
    const Geometry& geometry;
    const TilePlace& place;
    const float* sums = nullptr;  // [panels, rows, panel]
    int panel = 0;
    const float* a_scales = nullptr;  // [rows]; null: no scale waits for the end
    const float* b_scales = nullptr;  // [columns]
    // The rows of a folded side; only those are written that are wide, or not, as asked for.
    std::span<const FoldedRow> folded{};
    bool folded_is_a = false;
    bool wide = false;
    bool folded_end = false;  // the sum is multiplied by the row's end factor
};

/// D = fma(alpha, sum, C) in fp32 (without C: alpha * sum), rounded to the output format. Without any k: C, or zeros.
void write_outputs(const TileSums& tile);

}  // namespace tilewright::cpu
