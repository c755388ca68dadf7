#include "launch/maps.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "hopper/tile/output_tiling.h"
#include "launch/groups.h"

namespace tilewright::launch {
namespace {

// CUDA driver API, cuTensorMapEncodeTiled: addresses and strides are multiples of this.
constexpr std::int64_t tma_alignment = 16;

bool is_aligned(const void* address) { return std::bit_cast<std::uintptr_t>(address) % tma_alignment == 0; }

/// Empty dimensions are never copied, but cannot be described either.
hopper::u64 size(std::int64_t elements) { return static_cast<hopper::u64>(std::max<std::int64_t>(elements, 1)); }

/// The stride of a dimension of one index means nothing; TMA wants it aligned all the same.
hopper::u64 stride(std::int64_t elements, std::int64_t count, int element_bytes) {
    return static_cast<hopper::u64>(count > 1 ? elements * element_bytes : tma_alignment);
}

bool is_stride_aligned(std::int64_t elements, std::int64_t count, int element_bytes) {
    return count <= 1 || elements * element_bytes % tma_alignment == 0;
}

constexpr int scale_bytes = 4;

/// What TMA asks of scales in either order.
bool may_be_copied(const OperandGeometry& operand, const OperandSizes& sizes, std::int64_t columns) {
    return operand.recipe.scales == Format::f32 && operand.recipe.granularity == Granularity::block_1x128 &&
           columns > 0 && is_aligned(operand.scales) &&
           is_stride_aligned(operand.scale_strides.group, sizes.batch, scale_bytes);
}

}  // namespace

std::int64_t k_blocks(const OperandGeometry& operand, std::int64_t k) {
    if (operand.k_block() == 0) return 1;
    return std::min(operand.scale_columns, (k + operand.k_block() - 1) / operand.k_block());
}

hopper::TensorMapDescription value_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                       const hopper::Tile& tile, const hopper::OperandTile& side) {
    constexpr int bytes = 1;  // of fp8
    // Without any k no row is ever copied, and its stride may be anything.
    const std::int64_t rows = sizes.k == 0 ? 1 : sizes.rows;
    const std::int64_t batch = sizes.k == 0 ? 1 : sizes.batch;
    return {
        .base = operand.values,
        .element_bytes = bytes,
        .sizes = {size(sizes.k), size(sizes.rows), size(sizes.batch)},
        .strides = {stride(operand.value_strides.row, rows, bytes), stride(operand.value_strides.group, batch, bytes)},
        .box = {static_cast<hopper::u32>(tile.shape.k), static_cast<hopper::u32>(box_rows(tile, side)), 1},
        .swizzled = true};
}

std::optional<hopper::TensorMapDescription> scale_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                                      int tile_rows) {
    const std::int64_t columns = k_blocks(operand, sizes.k);
    const Strides& strides = operand.scale_strides;
    if (!may_be_copied(operand, sizes, columns) || (sizes.rows > 1 && strides.row != 1)) return {};
    if (!is_stride_aligned(strides.k, columns, scale_bytes) || strides.k < 0) return {};
    const std::int64_t last_column = columns > 1 ? (columns - 1) * strides.k : 0;
    if (last_column + sizes.rows > std::numeric_limits<int>::max()) return {};
    return hopper::TensorMapDescription{.base = operand.scales,
                                        .element_bytes = scale_bytes,
                                        .sizes = {size(last_column + sizes.rows), 1, size(sizes.batch)},
                                        .strides = {tma_alignment, stride(strides.group, sizes.batch, scale_bytes)},
                                        .box = {static_cast<hopper::u32>(tile_rows), 1, 1},
                                        .swizzled = false};
}

std::optional<hopper::TensorMapDescription> scale_map_by_row(const OperandGeometry& operand, const OperandSizes& sizes,
                                                             int tile_rows, int k_blocks_at_once) {
    const std::int64_t columns = k_blocks(operand, sizes.k);
    const Strides& strides = operand.scale_strides;
    if (!may_be_copied(operand, sizes, columns) || (columns > 1 && strides.k != 1)) return {};
    if (!is_stride_aligned(strides.row, sizes.rows, scale_bytes)) return {};
    return hopper::TensorMapDescription{
        .base = operand.scales,
        .element_bytes = scale_bytes,
        .sizes = {size(columns), size(sizes.rows), size(sizes.batch)},
        .strides = {stride(strides.row, sizes.rows, scale_bytes), stride(strides.group, sizes.batch, scale_bytes)},
        .box = {static_cast<hopper::u32>(k_blocks_at_once), static_cast<hopper::u32>(tile_rows), 1},
        .swizzled = false};
}

std::optional<hopper::TensorMapDescription> output_map(const Geometry& g, const hopper::Tile& tile) {
    const int bytes = bits(g.output) / 8;
    if (g.c.data != nullptr || !can_store_by_tma(tile, bytes)) return {};
    if (!is_aligned(g.d.data) || (g.n > 1 && g.d.column_stride != 1)) return {};
    // TMA writes 16 bytes at a time: the end of a row that is no multiple of them reaches into what lies behind it
    // (seen on an H200 in poisoned borders; loads do stop at the element).
    if (g.n * bytes % 16 != 0) return {};
    if (!is_stride_aligned(g.d.row_stride, g.m, bytes) || !is_stride_aligned(g.d.group_stride, matrices(g), bytes)) {
        return {};
    }
    return hopper::TensorMapDescription{
        .base = g.d.data,
        .element_bytes = bytes,
        .sizes = {size(g.n), size(g.m), size(matrices(g))},
        .strides = {stride(g.d.row_stride, g.m, bytes), stride(g.d.group_stride, matrices(g), bytes)},
        .box = {static_cast<hopper::u32>(store_columns(tile, bytes)), static_cast<hopper::u32>(store_rows(tile)), 1},
        .swizzled = store_swizzled(tile, bytes)};
}

}  // namespace tilewright::launch
