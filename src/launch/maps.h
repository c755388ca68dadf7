// Which copies TMA can do, and how it is told.
#pragma once

#include <optional>

#include "hopper/arguments.h"
#include "hopper/tile/operands.h"
#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::launch {

/// Rows and k of one operand, over the batch.
struct OperandSizes {
    std::int64_t rows = 0;
    std::int64_t k = 0;
    std::int64_t batch = 1;
};

/// Values as (k, row, batch), swizzled.
hopper::TensorMapDescription value_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                       const hopper::Tile& tile, const hopper::OperandTile& side);

/// Scales of rows as (k block * stride + row, 1, batch); nothing where TMA cannot fetch them. In one dimension, for a
/// box that reaches beyond the rows of a k-block takes longer where it leaves the tensor.
std::optional<hopper::TensorMapDescription> scale_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                                      int tile_rows);

/// Likewise as (k block, row, batch), `k_blocks_at_once` of them a row.
std::optional<hopper::TensorMapDescription> scale_map_by_row(const OperandGeometry& operand, const OperandSizes& sizes,
                                                             int tile_rows, int k_blocks_at_once);

/// D as (column, row, batch), swizzled; nothing where TMA cannot store it.
std::optional<hopper::TensorMapDescription> output_map(const Geometry& geometry, const hopper::Tile& tile);

/// Columns of the scales that serve this operand's k.
std::int64_t k_blocks(const OperandGeometry& operand, std::int64_t k);

}  // namespace tilewright::launch
