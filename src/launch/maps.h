// Tensor maps of the copies that TMA makes, where plan/tma.h says that it can.
#pragma once

#include "hopper/arguments.h"
#include "hopper/tile/operands.h"
#include "hopper/tile/tile.h"
#include "plan/tma.h"
#include "problem/geometry.h"

namespace tilewright::launch {

/// Values as (k, row, batch), mn-major ones as (row, k, batch), swizzled.
hopper::TensorMapDescription value_map(const OperandGeometry& operand, const planner::OperandSizes& sizes,
                                       const hopper::Tile& tile, const hopper::OperandTile& side);

/// Codes of weights that stay where they are, as (byte along k, row, batch), swizzled.
hopper::TensorMapDescription code_map(const OperandGeometry& operand, const planner::OperandSizes& sizes,
                                      const hopper::Tile& tile);

/// 1x128 scales whose rows are neighbours, as (k block * stride + row, 1, batch). One dimension for both: a box that
/// reaches beyond the rows of a k block takes longer where it leaves the tensor.
hopper::TensorMapDescription m_major_scale_map(const OperandGeometry& operand, const planner::OperandSizes& sizes,
                                               int tile_rows);

/// 1x128 scales whose k blocks are neighbours, as (k block, row, batch), `k_blocks_at_once` of them a row.
hopper::TensorMapDescription k_major_scale_map(const OperandGeometry& operand, const planner::OperandSizes& sizes,
                                               int tile_rows, int k_blocks_at_once);

/// D, or C, as (column, row, batch), swizzled.
hopper::TensorMapDescription output_map(const Geometry& geometry, const OutputGeometry& matrix,
                                        const hopper::Tile& tile);

}  // namespace tilewright::launch
