// The end of a GEMM in the canonical order: epilogue scales, alpha and C, and the one rounding.
#pragma once

#include "cpu/exact/folded.h"
#include "problem/canonical_order.h"
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
    // The epilogue scales per side: scales, or the powers of two that scales of chains left. They are 1 for a side
    // without any.
    const float* a_scales = nullptr;  // [rows]
    const float* b_scales = nullptr;  // [columns]
    const CanonicalOrder& order;      // of these rows
    // The rows of a folded side. Only wide rows, or only the others, are written, as requested.
    std::span<const FoldedRow> folded{};
    bool folded_is_a = false;
    bool wide = false;
};

/// D = fma(alpha, sum, C) in fp32 (without C: alpha * sum), rounded to the output format. Without any k: C, or zeros.
void write_outputs(const TileSums& tile);

}  // namespace tilewright::cpu
