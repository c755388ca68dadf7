// Tensor maps for TMA copies of operands; plan/tma.h decides which operands TMA can copy.
#pragma once

#include "hopper/arguments.h"
#include "hopper/description/design.h"
#include "hopper/description/kernel.h"
#include "plan/tma.h"
#include "problem/geometry.h"

namespace tilewright::launch {

/// Values as (k, row, batch), MN-major ones as (row, k, batch), swizzled.
hopper::TensorMapDescription value_map(const OperandGeometry& operand, const planner::OperandSizes& sizes,
                                       const hopper::Design& tile, const hopper::OperandTile& part);

/// Unpacked weights read in place, as (byte along k, row, batch), swizzled.
hopper::TensorMapDescription code_map(const OperandGeometry& operand, const planner::OperandSizes& sizes,
                                      const hopper::Design& tile);

/// 1x128 scales with adjacent rows, as (k block * stride + row, 1, batch). Rows and k blocks share one dimension: a box
/// that exceeds the rows of a k block takes longer if it leaves the tensor.
hopper::TensorMapDescription m_major_scale_map(const OperandGeometry& operand, const planner::OperandSizes& sizes,
                                               int tile_rows);

/// 1x128 scales with adjacent k blocks, as (k block, row, batch), with `k_blocks_at_once` of them per row.
hopper::TensorMapDescription k_major_scale_map(const OperandGeometry& operand, const planner::OperandSizes& sizes,
                                               int tile_rows, int k_blocks_at_once);

/// D, or C, as (column, row, batch), swizzled.
hopper::TensorMapDescription output_map(const Geometry& geometry, const OutputGeometry& matrix,
                                        const hopper::Design& tile);

}  // namespace tilewright::launch
