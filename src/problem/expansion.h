// Packed weights that are expanded to the tensor core's format before a product whose groups have many rows.
#pragma once

#include "problem/geometry.h"

#include <cstdint>

namespace tilewright {

/// Packed weights, expanded exactly and K-major with rows that are multiples of 16 bytes: e4m3 if packed for fp8, bf16
/// if packed for bf16. MXFP4 also has one factor per row (`PackedRow::end_factor`; f32 [groups, n], a power of two or
/// NaN). Multiplied last, it gives the canonical order of rows that are not wide. NVFP4's tensor scale stays in place.
struct ExpandedWeights {
    PackedGeometry from{};
    Format values = Format::e4m3;
    bool has_factors = true;
    std::int64_t groups = 1;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t at = 0;  // of the values in the workspace
    Strides to{};

    std::int64_t row_bytes() const { return to.row * bits(values) / 8; }
    std::int64_t value_bytes() const { return groups * n * row_bytes(); }
    /// Where the factors are in the workspace: a multiple of 128 after the values.
    std::int64_t factors_at() const;
    std::int64_t bytes() const { return has_factors ? factors_at() - at + groups * n * 4 : value_bytes(); }
};

/// Rows of A per group, as far as the host knows them; not for k-grouped calls.
std::int64_t known_rows(const Geometry& geometry);

/// Whether it is worth it.
bool expands_weights(const Geometry& geometry);
/// For packed weights without wide rows; not placed.
ExpandedWeights expansion_of(const Geometry& geometry);
/// As the product is given them.
OperandGeometry expanded_operand(const ExpandedWeights& expansion, const void* workspace);

}  // namespace tilewright
