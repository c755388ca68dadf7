#include "launch/maps.h"

#include <algorithm>
#include <cstdint>

#include "problem/hopper_rules.h"

namespace tilewright::launch {
namespace {

using planner::OperandSizes;
using planner::scale_bytes;

/// Empty dimensions are never copied, but TMA cannot describe them either.
hopper::u64 size(std::int64_t elements) { return static_cast<hopper::u64>(std::max<std::int64_t>(elements, 1)); }

/// The stride of a dimension of one index has no effect. TMA still requires it to be aligned.
hopper::u64 map_stride(std::int64_t elements, std::int64_t count, int element_bytes) {
    return static_cast<hopper::u64>(count > 1 ? elements * element_bytes : hopper_alignment);
}

/// Without any k the values are never read, and may have no memory.
const void* base_of(const OperandGeometry& operand, const OperandSizes& sizes) {
    return sizes.k == 0 ? nullptr : operand.values;
}

}  // namespace

hopper::TensorMapDescription value_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                       const hopper::Design& tile, const hopper::OperandTile& part) {
    const int box_k = tile.stage_k / tile.k_boxes;  // elements in the 128 bytes of a row's box
    const int bytes = hopper::row_bytes / box_k;
    // Without any k no row is ever copied, and its stride may be anything.
    const std::int64_t rows = sizes.k == 0 ? 1 : sizes.rows;
    const std::int64_t batch = sizes.k == 0 ? 1 : sizes.batch;
    if (part.side.form == hopper::Form::columns) {
        return {.base = base_of(operand, sizes),
                .element_bytes = bytes,
                .sizes = {size(sizes.rows), size(sizes.k), size(sizes.batch)},
                .strides = {map_stride(operand.value_strides.k, sizes.k, bytes),
                            map_stride(operand.value_strides.group, batch, bytes)},
                .box = {static_cast<hopper::u32>(part.box_rows), static_cast<hopper::u32>(tile.stage_k), 1},
                .swizzled = true};
    }
    return {.base = base_of(operand, sizes),
            .element_bytes = bytes,
            .sizes = {size(sizes.k), size(sizes.rows), size(sizes.batch)},
            .strides = {map_stride(operand.value_strides.row, rows, bytes),
                        map_stride(operand.value_strides.group, batch, bytes)},
            .box = {static_cast<hopper::u32>(box_k), static_cast<hopper::u32>(part.box_rows), 1},
            .swizzled = true};
}

hopper::TensorMapDescription code_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                      const hopper::Design& tile) {
    const auto bytes = [](std::int64_t codes) { return codes / 2; };
    const bool any = sizes.k > 0;
    return {.base = base_of(operand, sizes),
            .element_bytes = 1,
            .sizes = {size(bytes(sizes.k)), size(sizes.rows), size(sizes.batch)},
            .strides = {map_stride(bytes(operand.value_strides.row), any ? sizes.rows : 1, 1),
                        map_stride(bytes(operand.value_strides.group), any ? sizes.batch : 1, 1)},
            .box = {hopper::raw_row_bytes, static_cast<hopper::u32>(tile.d_columns), 1},
            .swizzled = true};
}

hopper::TensorMapDescription m_major_scale_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                               int tile_rows) {
    return {.base = operand.scales,
            .element_bytes = scale_bytes,
            .sizes = {size(planner::m_major_span(operand, sizes)), 1, size(sizes.batch)},
            .strides = {hopper_alignment, map_stride(operand.scale_strides.group, sizes.batch, scale_bytes)},
            .box = {static_cast<hopper::u32>(tile_rows), 1, 1},
            .swizzled = false};
}

hopper::TensorMapDescription k_major_scale_map(const OperandGeometry& operand, const OperandSizes& sizes, int tile_rows,
                                               int k_blocks_at_once) {
    const Strides& strides = operand.scale_strides;
    return {.base = operand.scales,
            .element_bytes = scale_bytes,
            .sizes = {size(planner::scale_columns(operand, sizes.k)), size(sizes.rows), size(sizes.batch)},
            .strides = {map_stride(strides.row, sizes.rows, scale_bytes),
                        map_stride(strides.group, sizes.batch, scale_bytes)},
            .box = {static_cast<hopper::u32>(k_blocks_at_once), static_cast<hopper::u32>(tile_rows), 1},
            .swizzled = false};
}

hopper::TensorMapDescription output_map(const Geometry& g, const OutputGeometry& matrix, const hopper::Design& tile) {
    const int bytes = bits(g.output) / 8;
    const std::int64_t batch = matrices_of_d(g);
    const int columns = tile.store_columns(bytes);
    return {.base = matrix.data,
            .element_bytes = bytes,
            .sizes = {size(g.n), size(g.m), size(batch)},
            .strides = {map_stride(matrix.row_stride, g.m, bytes), map_stride(matrix.group_stride, batch, bytes)},
            .box = {static_cast<hopper::u32>(columns), static_cast<hopper::u32>(tile.store_rows()), 1},
            .swizzled = columns * bytes == hopper::store_row_bytes};
}

}  // namespace tilewright::launch
