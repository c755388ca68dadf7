// The inner loops of the arithmetic `fast`, on tiles that decode.h has made. They are compiled once per instruction
// level.
//
// The two operands of a product are called rows and columns. Rows are the side with fewer; they are decoded once and
// kept. Columns are decoded tile by tile, when they are needed. All sums of one output run in ascending k, whatever
// tile it is in.
#pragma once

#include "cpu/fast/decode.h"
#include "cpu/isa.h"

#include <cstdint>

namespace tilewright::cpu {

/// sums[column][row] += the sum from zero of panels[panel of row][k][lane] * columns[column][k], times the scales of
/// the row and the column.
struct PanelJob {
    const float* panels = nullptr;  // each [k, lanes], `panel_stride` apart
    std::int64_t panel_stride = 0;
    int rows = 0;
    const float* columns = nullptr;  // [columns, column_stride], columns a multiple of panel_columns
    std::int64_t column_stride = 0;
    int column_count = 0;
    int k_count = 0;
    const float* row_scales = nullptr;     // [rows up to a multiple of lanes]; null: no scales
    const float* column_scales = nullptr;  // [columns]
    float* sums = nullptr;                 // [columns, sum_stride], sum_stride a multiple of lanes
    std::int64_t sum_stride = 0;
    bool first = false;  // sums hold nothing yet
};

/// sums[column][row][lane] += the sum of rows[row][k] * columns[column][k], from zero over k = lane, lane + width, ...
/// With scales it is computed block by block of k. Each block is multiplied by the scales of the row and the column.
struct DotJob {
    const float* rows = nullptr;
    std::int64_t row_stride = 0;
    int row_count = 0;
    const float* columns = nullptr;
    std::int64_t column_stride = 0;
    int column_count = 0;               // a multiple of dot_columns
    int k_count = 0;                    // a multiple of width; both sides are zero beyond the real end
    const float* row_scales = nullptr;  // [blocks, row_scale_stride]; null: no scales
    std::int64_t row_scale_stride = 0;
    const float* column_scales = nullptr;  // [blocks, column_scale_stride]
    std::int64_t column_scale_stride = 0;
    float* sums = nullptr;  // [columns, rows, width]
};

/// sums[column][lane] += rows[k][lane] * columns[column][k] in double.
struct WideJob {
    const double* rows = nullptr;     // [k, lanes]
    const double* columns = nullptr;  // [columns, k]
    int column_count = 0;
    int k_count = 0;
    double* sums = nullptr;  // [columns, lanes]
};

inline constexpr int scale_k = 128;  // k of one block of a DotJob with scales

struct FastKernels {
    int width;          // Floats in a vector.
    int lanes;          // Rows of a panel.
    int panel_columns;  // Columns that the panel kernel takes at a time.
    int dot_columns;    // Columns that the dot kernel takes at a time.
    void (*decode)(const DecodeJob&);
    float (*decode_gain)(Format);
    void (*multiply_panels)(const PanelJob&);
    void (*multiply_dots)(const DotJob&);
    void (*add_lanes)(const float* from, std::int64_t count, float* sums);  // [count, width] -> [count]
    void (*multiply_wide)(const WideJob&);
};

namespace baseline {
const FastKernels& fast_kernels();
}
#if defined(__x86_64__)
namespace avx2 {
const FastKernels& fast_kernels();
}
namespace avx512 {
const FastKernels& fast_kernels();
}
#endif

}  // namespace tilewright::cpu
