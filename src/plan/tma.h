// Which of a call's copies TMA can make: its requirements on addresses, strides and sizes (CUDA driver API,
// cuTensorMapEncodeTiled; PTX ISA, "Tensor-map").
#pragma once

#include "hopper/description/design.h"
#include "problem/geometry.h"

namespace tilewright::planner {

/// Rows and k of one operand, over the batch.
struct OperandSizes {
    std::int64_t rows = 0;
    std::int64_t k = 0;
    std::int64_t batch = 1;
};

OperandSizes sizes_of_a(const Geometry& geometry);
OperandSizes sizes_of_b(const Geometry& geometry);

/// Columns of the scales that this operand's k needs.
std::int64_t scale_columns(const OperandGeometry& operand, std::int64_t k);

/// Bytes of a scale that TMA loads: f32.
inline constexpr int scale_bytes = 4;

/// The number of scales from the first to the last one in memory, where rows are neighbours.
std::int64_t m_major_span(const OperandGeometry& operand, const OperandSizes& sizes);

/// Whether TMA loads 1x128 scales whose rows are neighbours in memory, or whose k blocks are.
bool loads_m_major_scales(const OperandGeometry& operand, const OperandSizes& sizes);
bool loads_k_major_scales(const OperandGeometry& operand, const OperandSizes& sizes);

/// Groups that share a matrix begin at multiples of this many rows, or of this many k; 1: anywhere.
std::int64_t group_alignment(const Geometry& geometry);

/// Whether every tile begins at a row whose scale may begin a load. On an H200, loads of M-major scales that did not
/// begin at a multiple of 16 bytes were an "illegal instruction".
bool tiles_begin_aligned(const Geometry& geometry, const hopper::Design& tile);

/// Whether TMA can store D, and load C where there is one. With split-K threads store D, in pairs that ask the same of
/// it.
bool stores_by_tma(const Geometry& geometry, const hopper::Design& tile);

/// Whether TMA loads all 1x128 scales for this kernel; false where there are none. Both operands' or neither's: the
/// kernel has one flag for both.
bool loads_scales_by_tma(const Geometry& geometry, const hopper::Design& tile);

}  // namespace tilewright::planner
