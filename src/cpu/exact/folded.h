// MXFP4 in the canonical order: scales are folded into the values, relative to a reference exponent of the row. If a
// row's exponents are too far apart, they are relative to exponent windows (docs/numerics.md).
#pragma once

#include "cpu/exact/decode.h"

#include <span>
#include <vector>

namespace tilewright::cpu {

/// One row of the folded side, over all of a GEMM's k.
struct FoldedRow {
    bool wide = false;
    int reference = 0;
    // Multiplies the sum; NaN if a scale is NaN; 1 for wide rows.
    float end_factor = 1;
};

/// `range`: all of the GEMM's k, from k = 0.
std::vector<FoldedRow> folded_rows(const OperandRange& range, StepKind step);

/// The rows that a pass multiplies and, for wide rows in fp8, the window whose values it multiplies.
struct FoldPass {
    std::span<const FoldedRow> rows{};
    bool wide = false;
    int window = 0;
};

/// Multiplies the e2m1 values of a tile by their scales, relative to the reference or to the window's largest exponent.
/// Values of other rows and windows become 0. `tops` gets that exponent per row, or `no_window` for rows without this
/// window. Returns the largest number of windows of this pass's rows here.
int fold_values(const OperandRange& range, const TileLayout& layout, const FoldPass& pass, float* values, int* tops);

inline constexpr int no_window = 1000;

}  // namespace tilewright::cpu
