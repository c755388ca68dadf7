// MXFP4 in the canonical order: scales folded into the values, relative to a reference exponent of the row, or to
// windows of exponents where a row's are too far apart (docs/numerics.md).
#pragma once

#include "cpu/exact/decode.h"

#include <span>
#include <vector>

namespace tilewright::cpu {

/// One row of the folded side, over all of a GEMM's k.
struct FoldedRow {
    bool wide = false;
    int reference = 0;
    float end_factor = 1;  // of the sum; NaN where a scale is. Of wide ones 1
};

/// range: all of the GEMM's k, k = 0.
std::vector<FoldedRow> folded_rows(const OperandRange& range, StepKind step);

/// Which rows are multiplied now, and, of wide ones in fp8, the codes of which window.
struct FoldPass {
    std::span<const FoldedRow> rows{};
    bool wide = false;
    int window = 0;
};

/// Multiplies the e2m1 values of a tile by their scales, relative to the reference or to the window's largest exponent;
/// values of other rows and windows become 0. tops: of each row, that exponent; `no_window` of rows without this
/// window. Returns how many windows the rows of this pass have here.
int fold_values(const OperandRange& range, const TileLayout& layout, const FoldPass& pass, float* values, int* tops);

inline constexpr int no_window = 1000;

}  // namespace tilewright::cpu
