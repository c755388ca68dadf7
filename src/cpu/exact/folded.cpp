#include "cpu/exact/folded.h"

#include "formats/codec.h"
#include "formats/row_exponents.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tilewright::cpu {
namespace {

using formats::BlockWindows;
using formats::RowExponents;

constexpr std::int64_t block_k = 32;

int scale_code(const OperandRange& range, std::int64_t row, std::int64_t k) {
    const std::int64_t column = range.origin.block + (range.k + k) / block_k;
    const std::int64_t index = scale_index(range.operand, range.group, range.row_begin + row, column);
    return static_cast<const std::uint8_t*>(range.operand.scales)[index];
}

bool has_nonzero(const OperandRange& range, std::int64_t row, std::int64_t k) {
    const auto* codes = static_cast<const std::uint8_t*>(range.operand.values);
    const std::int64_t end = std::min(k + block_k, range.k_count);
    for (std::int64_t i = k; i < end; ++i) {
        const std::int64_t index = value_index(range.operand, range.origin, range.row_begin + row, i);
        if ((codes[index >> 1] >> ((index & 1) * 4) & 7) != 0) return true;
    }
    return false;
}

FoldedRow folded_row(const OperandRange& range, std::int64_t row, StepKind step) {
    RowExponents exponents;
    for (std::int64_t k = 0; k < range.k_count; k += block_k) {
        exponents.include(scale_code(range, row, k), has_nonzero(range, row, k));
    }
    FoldedRow folded{.wide = exponents.wide(fold_range(step)), .reference = exponents.reference(fold_range(step))};
    if (!folded.wide) folded.end_factor = formats::power_of_two(folded.reference - fold_top(step));
    if (exponents.nan) folded.end_factor = std::numeric_limits<float>::quiet_NaN();
    return folded;
}

/// The values of one row in one tile, every `stride`th.
struct Row {
    float* values;
    std::int64_t stride;
    std::int64_t k_count;

    void multiply(std::int64_t k, float factor) const {
        const std::int64_t end = std::min(k + block_k, k_count);
        for (; k < end; ++k) values[k * stride] *= factor;
    }
    bool has_nonzero(std::int64_t k) const {
        const std::int64_t end = std::min(k + block_k, k_count);
        for (; k < end; ++k) {
            if (values[k * stride] != 0) return true;
        }
        return false;
    }
};

std::array<int, BlockWindows::blocks> exponents_of(const OperandRange& range, std::int64_t row, const Row& values) {
    std::array<int, BlockWindows::blocks> exponents{};
    exponents.fill(BlockWindows::none);
    for (std::int64_t k = 0; k < range.k_count; k += block_k) {
        const int code = scale_code(range, row, k);
        if (code == formats::ue8m0_nan || !values.has_nonzero(k)) continue;
        exponents[static_cast<std::size_t>(k / block_k)] = code - formats::ue8m0_bias;
    }
    return exponents;
}

/// Folds one row of the pass. Returns its number of windows here.
int fold_row(const OperandRange& range, std::int64_t row, const FoldPass& pass, StepKind step, const Row& values,
             int* top_of_row) {
    const FoldedRow& folded = pass.rows[static_cast<std::size_t>(row)];
    const auto exponents = exponents_of(range, row, values);
    const BlockWindows windows = pass.wide ? formats::block_windows(exponents) : BlockWindows{};
    const auto window = static_cast<std::size_t>(pass.window);
    const bool has_window = pass.window < windows.count;
    const int top = pass.wide && has_window ? windows.top[window] : folded.reference;
    for (std::int64_t k = 0; k < range.k_count; k += block_k) {
        const auto block = static_cast<std::size_t>(k / block_k);
        if (windows.of_block[block] != pass.window) {
            values.multiply(k, 0);
        } else if (exponents[block] != BlockWindows::none) {
            values.multiply(k, formats::power_of_two(exponents[block] - top + fold_top(step)));
        }
    }
    *top_of_row = has_window ? (top == BlockWindows::none ? 0 : top) : no_window;
    return windows.count;
}

}  // namespace

std::vector<FoldedRow> folded_rows(const OperandRange& range, StepKind step) {
    std::vector<FoldedRow> rows;
    rows.reserve(static_cast<std::size_t>(range.rows));
    for (std::int64_t row = 0; row < range.rows; ++row) rows.push_back(folded_row(range, row, step));
    return rows;
}

int fold_values(const OperandRange& range, const TileLayout& layout, const FoldPass& pass, float* values, int* tops) {
    int windows = 1;
    for (std::int64_t row = 0; row < range.rows; ++row) {
        const Row line{.values = values + tile_index(layout, row), .stride = layout.panel, .k_count = range.k_count};
        tops[row] = no_window;
        if (pass.rows[static_cast<std::size_t>(row)].wide == pass.wide) {
            windows = std::max(windows, fold_row(range, row, pass, layout.step, line, tops + row));
        } else {
            for (std::int64_t k = 0; k < range.k_count; k += block_k) line.multiply(k, 0);
        }
    }
    return windows;
}

}  // namespace tilewright::cpu
