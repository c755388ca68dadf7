#include "plan/tma.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "base/math.h"
#include "plan/kernel_class.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {
namespace {

bool is_aligned(const void* address) { return std::bit_cast<std::uintptr_t>(address) % hopper_alignment == 0; }

bool is_stride_aligned(std::int64_t elements, std::int64_t count, int element_bytes) {
    return count <= 1 || elements * element_bytes % hopper_alignment == 0;
}

/// What TMA asks of scales in either order.
bool may_be_copied(const OperandGeometry& operand, const OperandSizes& sizes) {
    return operand.recipe.scales == Format::f32 && operand.recipe.granularity == Granularity::block_1x128 &&
           scale_columns(operand, sizes.k) > 0 && is_aligned(operand.scales) &&
           is_stride_aligned(operand.scale_strides.group, sizes.batch, scale_bytes);
}

/// Whether TMA copies boxes of C or D: no matter which way.
bool copies_rows(const Geometry& g, const OutputGeometry& matrix) {
    const int bytes = bits(g.output) / 8;
    if (!is_aligned(matrix.data) || (g.n > 1 && matrix.column_stride != 1)) return false;
    const auto goes_on = [](std::int64_t stride, std::int64_t count) { return count <= 1 || stride > 0; };
    return goes_on(matrix.row_stride, g.m) && goes_on(matrix.group_stride, matrices_of_d(g)) &&
           is_stride_aligned(matrix.row_stride, g.m, bytes) &&
           is_stride_aligned(matrix.group_stride, matrices_of_d(g), bytes);
}

}  // namespace

OperandSizes sizes_of_a(const Geometry& g) { return {.rows = g.m, .k = g.k, .batch = matrices_of_a(g)}; }
OperandSizes sizes_of_b(const Geometry& g) { return {.rows = g.n, .k = g.k, .batch = matrices_of_b(g)}; }

std::int64_t scale_columns(const OperandGeometry& operand, std::int64_t k) {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    if (operand.k_block() == 0) return 1;
    if (operand.scales_restart_per_group && k > 0) return std::min(operand.scale_columns, most);
    return std::min(operand.scale_columns, ceil_div<std::int64_t>(k, operand.k_block()));
}

std::int64_t m_major_span(const OperandGeometry& operand, const OperandSizes& sizes) {
    const std::int64_t columns = scale_columns(operand, sizes.k);
    return (columns > 1 ? (columns - 1) * operand.scale_strides.k : 0) + sizes.rows;
}

bool loads_m_major_scales(const OperandGeometry& operand, const OperandSizes& sizes) {
    const std::int64_t columns = scale_columns(operand, sizes.k);
    const Strides& strides = operand.scale_strides;
    if (!may_be_copied(operand, sizes) || (sizes.rows > 1 && strides.row != 1)) return false;
    if (!is_stride_aligned(strides.k, columns, scale_bytes) || strides.k < 0) return false;
    return m_major_span(operand, sizes) <= std::numeric_limits<int>::max();
}

bool loads_k_major_scales(const OperandGeometry& operand, const OperandSizes& sizes) {
    const std::int64_t columns = scale_columns(operand, sizes.k);
    const Strides& strides = operand.scale_strides;
    return may_be_copied(operand, sizes) && (columns <= 1 || strides.k == 1) &&
           is_stride_aligned(strides.row, sizes.rows, scale_bytes);
}

std::int64_t group_alignment(const Geometry& g) {
    // Alignments beyond the last row or k all do the same.
    const auto clamped = [](std::int64_t alignment, std::int64_t size) {
        return std::clamp<std::int64_t>(alignment, 1, std::max<std::int64_t>(size, 1));
    };
    switch (g.grouping.grouping) {
        case Grouping::m_grouped_aligned_offsets: return clamped(g.grouping.alignment, g.m);
        case Grouping::m_grouped_indices: return clamped(g.grouping.index_alignment, g.m);
        case Grouping::k_grouped_aligned_offsets: return clamped(g.grouping.alignment, g.k);
        default: return 1;
    }
}

bool tiles_begin_aligned(const Geometry& g, const hopper::Design& tile) {
    if (tile.groups != hopper::Groups::rows || g.grouping.grouping == Grouping::m_grouped_masked) return true;
    constexpr int scales = hopper_alignment / scale_bytes;
    return group_alignment(g) % scales == 0 && tile.d_rows % scales == 0;
}

bool stores_by_tma(const Geometry& g, const hopper::Design& tile) {
    const int bytes = bits(g.output) / 8;
    const bool loads_c = tile.output == hopper::Output::f32_by_tma && !g.bias && copies_rows(g, g.c);
    const bool adds_bias = tile.output == hopper::Output::any && g.bias && tile.cluster.k_slices == 1;
    if (!tile.stores_by_tma(bytes) || (g.c.given && !loads_c && !adds_bias)) return false;
    // TMA stores 16 bytes at a time: a row that is not a multiple of 16 bytes overwrites what follows it. Seen on an
    // H200 in poisoned borders. Loads do stop at the element.
    return g.n * bytes % 16 == 0 && copies_rows(g, g.d);
}

bool loads_scales_by_tma(const Geometry& g, const hopper::Design& tile) {
    const bool of_a = has_1x128_scales(tile.a, tile.order.a);
    const bool of_b = has_1x128_scales(tile.b, tile.order.b);
    if (!tile.scale_route.tma) return false;
    const auto loads_a = [&] {
        if (tile.scales_along_k) return loads_k_major_scales(g.a, sizes_of_a(g));
        return tiles_begin_aligned(g, tile) && loads_m_major_scales(g.a, sizes_of_a(g));
    };
    return (!of_a || loads_a()) && (!of_b || loads_m_major_scales(g.b, sizes_of_b(g)));
}

}  // namespace tilewright::planner
