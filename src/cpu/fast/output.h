// The end of a fast product: remaining scales, alpha and C in double, and one rounding to the output format.
#pragma once

#include "cpu/fast/operand.h"

#include <cstdint>

namespace tilewright::cpu {

inline constexpr int output_columns = 128;  // the most columns of one OutputJob

/// The place of element (row, column) of a product in D, C or the bias.
struct OutputPlace {
    void* data = nullptr;
    std::int64_t base = 0;
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 0;
};

struct OutputJob {
    Format format = Format::bf16;
    OutputPlace d;
    // C or the bias; data is null if neither is given.
    OutputPlace c;
    Format addend = Format::bf16;  // of c
    Rows rows;                     // numbers that row_stride counts
    std::int64_t first_column = 0;
    int columns = 0;

    const float* sums = nullptr;  // null without any k: D is C, or zeros
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 0;
    const double* row_scales = nullptr;
    const double* column_scales = nullptr;
    double factor = 1;

    /// Sums in double that include all scales, [columns, wide_stride]. They replace all sums, or only the sums that are
    /// infinite or NaN in fp32.
    const double* wide = nullptr;
    std::int64_t wide_stride = 0;
    bool all_wide = false;
};

void write_output(const OutputJob& job);

}  // namespace tilewright::cpu
