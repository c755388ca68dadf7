// Decodes a tile of an operand of any format, layout and grouping. The result is fp32 values and exponent codes, as
// these kernels read them, with zeros after the operand's end.
#pragma once

#include "cpu/exact/kernels.h"
#include "problem/canonical_order.h"
#include "problem/geometry.h"

#include <cstdint>
#include <vector>

namespace tilewright::cpu {

/// k that is decoded at a time. Every scale block divides it, and every chain that is shorter than k.
inline constexpr int tile_k = promotion_interval;

/// Rows and k of one operand, within one GEMM.
struct OperandRange {
    const OperandGeometry& operand;
    std::int64_t group = 0;
    std::int64_t row_begin = 0;
    std::int64_t rows = 0;
    Origin origin{};           // of the GEMM
    std::int64_t k = 0;        // from the beginning of the GEMM
    std::int64_t k_count = 0;  // at most tile_k
};

/// Rows are stored in panels: element (row, k) is at ((row / panel) * tile_k + k) * panel + row % panel. Panels of one
/// row are a row-major matrix, which the kernels read as A. Panels of several vectors serve as B.
struct TileLayout {
    StepKind step = StepKind::fp8;
    const ExactKernels* kernels = nullptr;
    int lanes = 1;
    int panel = 1;
};
/// The index of the first element of row `row`; consecutive k are `panel` apart.
inline std::int64_t tile_index(const TileLayout& layout, std::int64_t row) {
    return row / layout.panel * tile_k * layout.panel + row % layout.panel;
}
TileLayout rows_layout(StepKind step, const ExactKernels& kernels);
TileLayout panels_layout(StepKind step, const ExactKernels& kernels);

struct DecodedTile {
    std::vector<float> values;
    std::vector<std::uint32_t> codes;
    bool general = false;  // Holds numbers that only the general kernels take.
    // Only for the folded side (folded.h): each row's exponent, and the largest number of windows of a row here.
    std::vector<int> tops;
    int windows = 1;

    /// Allocates memory for `rows`, a multiple of the panel.
    void resize(const TileLayout& layout, std::int64_t rows);
};

struct FoldPass;

/// `fold`: for a side whose scales are folded into its values; null for all others.
void decode_tile(const OperandRange& range, const TileLayout& layout, const FoldPass* fold, DecodedTile& tile);

/// The scales that are applied outside of the tensor core at this k, one per row of the range.
void load_scales(const OperandRange& range, float* out);

}  // namespace tilewright::cpu
