// One operand of a product as the fast backend reads it: its rows, its k, and the use of its scales.
//
// The use of each scale keeps fp32 from rounding more often than the canonical order does (docs/numerics.md):
// - ue8m0 and ue4m3 are folded into the decoded floats, which stay short numbers: nothing is rounded;
// - f32 block scales multiply the sum of a block of 128 k;
// - one scale for a whole row multiplies the final sum, in double.
//
// The first two are correct while scales are moderate. Then decoded values, products of scales and sums leave fp32's
// normal range only if they must. A block with a scale outside of that range is reported, and its tile is computed in
// double. The exception is a small scale of a block whose values are all zero. A scale that is infinite or NaN is
// always folded in, because 0 * Inf is NaN, whatever the other products of the block are.
#pragma once

#include "cpu/fast/decode.h"
#include "problem/geometry.h"

#include <cstdint>

namespace tilewright::cpu {

/// Moderate scales are between the inverse of these limits and the limits.
inline constexpr float largest_folded_scale = 0x1p38F;
inline constexpr float largest_block_scale = 0x1p60F;
/// The largest scale of a row if the other operand has block scales: no product of the two overflows.
inline constexpr double largest_row_scale = 0x1p67;

/// Row numbers: a list in ascending order, or `first`, `first + 1`, ...
struct Rows {
    const std::int64_t* list = nullptr;
    std::int64_t first = 0;
    std::int64_t count = 0;

    std::int64_t operator[](std::int64_t i) const { return list == nullptr ? first + i : list[i]; }
    Rows slice(std::int64_t begin, std::int64_t size) const {
        return {.list = list == nullptr ? nullptr : list + begin, .first = first + begin, .count = size};
    }
};

/// An operand of one GEMM.
struct OperandSlice {
    const OperandGeometry* operand = nullptr;
    std::int64_t group = 0;
    Origin origin{};
};

/// Some rows and some k (a multiple of 128 from the GEMM's beginning) of a slice.
struct OperandBlock {
    OperandSlice slice;
    Rows rows;
    std::int64_t k = 0;
    int k_count = 0;
};

/// The number of scale columns that `block` touches; 1 if scales do not vary along k.
int scale_columns(const OperandBlock& block);

/// Whether each block of k has a scale, of whatever format.
bool varies_along_k(const OperandSlice& slice);

/// Whether the sums of blocks must be multiplied by `block_scales`.
bool has_block_scales(const OperandSlice& slice);

/// out[r + c * stride] = the scale of row r and the c-th 128 k-elements; 1 if the operand has none.
void block_scales(const OperandBlock& block, float* out, int stride);

/// For each row r and scale column c: out[r + c * stride] = gain times the scale that the decoder folds in. Returns
/// false if the block has a scale, of whatever kind, that is not moderate.
bool fold_scales(const OperandBlock& block, float gain, float* out, int stride);

/// out[r + c * stride] = the whole scale of row r (without the tensor scale of NVFP4), which the double path folds in.
void exact_scales(const OperandBlock& block, double* out, int stride);

/// The scale of a row that remains for the end.
double remaining_scale(const OperandSlice& slice, std::int64_t row);

/// NVFP4's tensor scale; 1 for others.
double tensor_scale(const OperandSlice& slice);

/// The decoder's view of the block, without scales and output.
DecodeJob decode_job(const OperandBlock& block);

}  // namespace tilewright::cpu
