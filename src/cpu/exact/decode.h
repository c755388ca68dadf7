// Decodes a tile of an operand, whatever its format, layout and grouping, to what these kernels read: fp32 values
// and exponent codes, with zeros where the tile hangs over the operand's end.
#pragma once

#include "cpu/exact/kernels.h"
#include "problem/canonical_order.h"
#include "problem/geometry.h"

#include <cstdint>
#include <vector>

namespace tilewright::cpu {

/// k that is decoded at a time: every scale block and every chain that is not all of k divides it.
inline constexpr int tile_k = promotion_interval;

/// Rows and k of one operand, within one GEMM.
struct OperandRange {
    const OperandGeometry& operand;
    std::int64_t group = 0;
    std::int64_t row_begin = 0;
    std::int64_t rows = 0;
    Origin origin{};           // of the GEMM
    std::int64_t k = 0;        // from the GEMM's beginning
    std::int64_t k_count = 0;  // at most tile_k
};

/// Rows are stored in panels: element (row, k) at ((row / panel) * tile_k + k) * panel + row % panel. Panels of one row
/// are a row-major matrix, which is how the kernels read A; panels of several vectors serve B.
struct TileLayout {
    StepKind step = StepKind::fp8;
    const ExactKernels* kernels = nullptr;
    int lanes = 1;
    int panel = 1;
};
/// Where row `row` begins; the next k is `panel` on.
inline std::int64_t tile_index(const TileLayout& layout, std::int64_t row) {
    return row / layout.panel * tile_k * layout.panel + row % layout.panel;
}
TileLayout rows_layout(StepKind step, const ExactKernels& kernels);
TileLayout panels_layout(StepKind step, const ExactKernels& kernels);

struct DecodedTile {
    std::vector<float> values;
    std::vector<std::uint32_t> codes;
    bool general = false;  // holds numbers that only the general kernels take
    // The folded side alone (folded.h) has each row's exponent, and the most windows that a row has here.
    std::vector<int> tops;
    int windows = 1;

    /// Memory for `rows`, a multiple of the panel.
    void resize(const TileLayout& layout, std::int64_t rows);
};

struct FoldPass;

/// fold: of a side whose scales are folded into its values; null of all others.
void decode_tile(const OperandRange& range, const TileLayout& layout, const FoldPass* fold, DecodedTile& tile);

/// The scales that apply outside the tensor core at this k, one for each row of the range.
void load_scales(const OperandRange& range, float* out);

}  // namespace tilewright::cpu
