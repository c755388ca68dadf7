#include "problem/geometry.h"

#include "base/math.h"
#include "formats/element.h"
#include "formats/packed_layout.h"
#include "formats/recipe_of.h"
#include "problem/axes.h"
#include "problem/mixed_rows.h"
#include "problem/times_made.h"

#include <tilewright/error.h>

#include <algorithm>

namespace tilewright {
namespace {

/// If GCC 12 inlines it twice, `geometry` takes 90 ns instead of 51.
[[gnu::noinline]] OperandGeometry operand_geometry(const Operand& operand, bool transposed, bool grouped) {
    OperandGeometry g;
    g.recipe = recipe_of(operand);
    g.values = operand.values.data;
    const int first = grouped ? 1 : 0;
    const Dims& strides = operand.values.strides;
    g.value_strides = {.group = grouped ? strides[0] : 0,
                       .row = strides[transposed ? first + 1 : first],
                       .k = strides[transposed ? first : first + 1]};

    // Scales have the group first if their rank shows it: [g] or [1] for tensor, [g, rows] for row, ...
    if (operand.granularity != Granularity::none) {
        g.scales = operand.scales.data;
        const bool rows = g.row_block() != 0;
        const bool blocks = g.k_block() != 0;
        const int logical_rank = (rows ? 1 : 0) + (blocks ? 1 : 0);
        const Tensor& scales = operand.scales;
        const bool scale_groups = scales.shape.rank() > logical_rank && scales.shape[0] > 1;
        const int first_scale = scales.shape.rank() - logical_rank;
        g.scale_strides = {.group = scale_groups ? scales.strides[0] : 0,
                           .row = rows ? scales.strides[first_scale] : 0,
                           .k = blocks ? scales.strides[first_scale + 1] : 0};
        if (blocks) g.scale_columns = scales.shape[first_scale + 1];
    }
    g.has_tensor_scale = operand.tensor_scale.given();
    if (g.has_tensor_scale) {
        g.tensor_scale = operand.tensor_scale.data;
        g.tensor_scale_stride = operand.tensor_scale.shape[0] > 1 ? operand.tensor_scale.strides[0] : 0;
    }
    return g;
}

/// Packed weights are row-major [n, k] in each group, and so are their scales.
OperandGeometry packed_operand(const PackedWeights& packed) {
    OperandGeometry g{.recipe = packed.recipe};
    g.scale_columns = ceil_div<std::int64_t>(packed.k, g.k_block());
    g.value_strides = {.group = packed.grouped ? packed.n * packed.k : 0, .row = packed.k, .k = 1};
    g.scale_strides = {.group = packed.groups > 1 ? packed.n * g.scale_columns : 0, .row = g.scale_columns, .k = 1};
    g.has_tensor_scale = packed.tensor_scales != 0;
    g.tensor_scale_stride = packed.tensor_scales > 1 ? 1 : 0;
    g.packed = packed_geometry(packed);
    return g;
}

OutputGeometry output_geometry(const Tensor& tensor) {
    if (!tensor.given()) return {};
    const int first = tensor.shape.rank() - 2;
    return {.given = true,
            .data = tensor.data,
            .group_stride = first == 1 ? tensor.strides[0] : 0,
            .row_stride = tensor.strides[first],
            .column_stride = tensor.strides[first + 1]};
}

/// Groups of rows of D share a matrix of D, but each has a bias.
OutputGeometry bias_geometry(const Tensor& bias) {
    const int last = bias.shape.rank() - 1;
    return {.given = true,
            .data = bias.data,
            .group_stride = last == 1 && bias.shape[0] > 1 ? bias.strides[0] : 0,
            .row_stride = 0,
            .column_stride = bias.strides[last]};
}

std::int64_t blocks(std::int64_t k, int block) { return block == 0 ? 0 : ceil_div<std::int64_t>(k, block); }

std::int64_t begin_block(const OperandGeometry& operand, std::int64_t k) {
    return operand.k_block() == 0 ? 0 : k / operand.k_block();
}

/// The next multiple, or `limit` if that comes first; no sum overflows.
std::int64_t round_up_to(std::int64_t value, std::int64_t multiple, std::int64_t limit) {
    const std::int64_t missing = (multiple - value % multiple) % multiple;
    return missing <= limit - value ? value + missing : limit;
}

std::int64_t size_entry(const Geometry& g, std::int64_t index) {
    const Tensor& sizes = g.grouping.sizes;
    return formats::load_integer(sizes.data, sizes.format, index * sizes.strides[0]);
}

std::int64_t group_of_row(const Geometry& g, std::int64_t row) {
    const std::int64_t group = size_entry(g, row);
    return group >= 0 && group < g.groups ? group : no_group;
}

/// The group of the first row.
std::int64_t group_of_block(const Geometry& g, std::int64_t begin, std::int64_t end) {
    const std::int64_t group = group_of_row(g, begin);
    for (std::int64_t row = begin + 1; row < end; ++row) {
        const std::int64_t other = group_of_row(g, row);
        if (other != no_group && other != group) throw Error({mixed_rows(row, other, group)});
    }
    return group;
}

/// Runs of blocks with the same group; blocks of no group are left out. Where rows may come in any order, a block is
/// one row.
std::vector<GroupGemm> index_gemms(const Geometry& g) {
    std::vector<GroupGemm> list;
    std::int64_t end = 0;
    for (std::int64_t begin = 0; begin < g.m; begin = end) {
        end = round_up_to(begin + 1, g.grouping.index_alignment, g.m);
        const std::int64_t group = group_of_block(g, begin, end);
        if (group == no_group) continue;
        if (!list.empty() && list.back().group == group && list.back().row_begin + list.back().rows == begin) {
            list.back().rows = end - list.back().row_begin;
        } else {
            list.push_back({.group = group, .row_begin = begin, .rows = end - begin, .k_count = g.k});
        }
    }
    return list;
}

std::vector<GroupGemm> offset_gemms(const Geometry& g, std::int64_t alignment) {
    std::vector<GroupGemm> list;
    std::int64_t begin = 0;
    for (std::int64_t group = 0; group < g.groups; ++group) {
        const std::int64_t end = std::clamp(size_entry(g, group), begin, g.m);
        list.push_back({.group = group, .row_begin = begin, .rows = end - begin, .k_count = g.k});
        begin = round_up_to(end, alignment, g.m);
    }
    return list;
}

/// The part of `k` that the scale columns from `first_block` on cover.
std::int64_t served_k(const OperandGeometry& operand, std::int64_t first_block, std::int64_t k) {
    const std::int64_t columns = std::max<std::int64_t>(operand.scale_columns - first_block, 0);
    const bool enough = operand.k_block() == 0 || columns >= blocks(k, operand.k_block());
    return enough ? k : columns * operand.k_block();
}

/// The place of the values of a group of `k` k-elements that begins at `begin`: between the values of other groups, or
/// after them (flat).
Origin k_origin(const OperandGeometry& operand, std::int64_t rows, bool flat, std::int64_t begin, std::int64_t k) {
    if (!flat) return {.value = begin * operand.value_strides.k, .row_stride = operand.value_strides.row};
    return {.value = begin * rows, .row_stride = k};
}

/// Each group's k. Sizes that need more scale columns than there are lose the k beyond the last one: clamped like
/// everything else.
std::vector<GroupGemm> k_gemms(const Geometry& g) {
    const bool aligned = g.grouping.grouping == Grouping::k_grouped_aligned_offsets;
    const bool counts = g.grouping.grouping == Grouping::k_grouped_flat;
    std::vector<GroupGemm> list;
    std::int64_t begin = 0, a_block = 0, b_block = 0;
    for (std::int64_t group = 0; group < g.groups; ++group) {
        const std::int64_t size = size_entry(g, group);
        const std::int64_t k =
            counts ? std::clamp<std::int64_t>(size, 0, g.k - begin) : std::clamp(size, begin, g.k) - begin;
        GroupGemm gemm{.group = group, .rows = g.m, .k_begin = begin};
        gemm.a = k_origin(g.a, g.m, g.a.flat, begin, k);
        gemm.b = k_origin(g.b, g.n, g.b.flat, begin, k);
        gemm.a.block = aligned ? begin_block(g.a, begin) : a_block;
        gemm.b.block = aligned ? begin_block(g.b, begin) : b_block;
        gemm.k_count = served_k(g.b, gemm.b.block, served_k(g.a, gemm.a.block, k));
        list.push_back(gemm);
        begin = round_up_to(begin + k, aligned ? g.grouping.alignment : 1, g.k);
        a_block += blocks(gemm.k_count, g.a.k_block());
        b_block += blocks(gemm.k_count, g.b.k_block());
    }
    return list;
}

std::vector<GroupGemm> group_gemms(const Geometry& g, bool masked) {
    std::vector<GroupGemm> list;
    for (std::int64_t group = 0; group < g.groups; ++group) {
        const std::int64_t rows = masked ? std::clamp<std::int64_t>(size_entry(g, group), 0, g.m) : g.m;
        list.push_back({.group = group, .rows = rows, .k_count = g.k});
    }
    return list;
}

std::vector<GroupGemm> all_gemms(const Geometry& g) {
    switch (g.grouping.grouping) {
        case Grouping::dense:
        case Grouping::batched: return group_gemms(g, false);
        case Grouping::m_grouped_masked: return group_gemms(g, true);
        case Grouping::m_grouped_indices: return index_gemms(g);
        case Grouping::m_grouped_offsets: return offset_gemms(g, 1);
        case Grouping::m_grouped_aligned_offsets: return offset_gemms(g, g.grouping.alignment);
        case Grouping::k_grouped:
        case Grouping::k_grouped_aligned_offsets:
        case Grouping::k_grouped_flat: return k_gemms(g);
    }
    return {};
}

}  // namespace

std::int64_t matrices_of_a(const Geometry& g) { return has_group_dimension_a(g.grouping.grouping) ? g.groups : 1; }
std::int64_t matrices_of_b(const Geometry& g) { return has_group_dimension_b(g.grouping.grouping) ? g.groups : 1; }
std::int64_t matrices_of_d(const Geometry& g) { return has_group_dimension_d(g.grouping.grouping) ? g.groups : 1; }

bool expects_fewer_rows(const Geometry& g) {
    const bool hinted = groups_share_a_matrix(g.grouping.grouping) && g.groups > 0 && g.expected_m > 0;
    return hinted && g.expected_m < ceil_div(g.m, g.groups);
}

PackedGeometry packed_geometry(const PackedWeights& packed) {
    const formats::PackedSections sections = formats::packed_sections(packed);
    PackedGeometry g{.given = true,
                     .row_tiles = sections.row_tiles(),
                     .k_blocks = sections.k_blocks(),
                     .windows = static_cast<int>(sections.windows),
                     .wide_row = sections.wide_row,
                     .tile_bytes = sections.tile_bytes()};
    if (packed.data == nullptr) return g;
    g.rows = static_cast<const std::byte*>(packed.data) + sections.rows_at();
    g.tiles = static_cast<const std::byte*>(packed.data) + sections.tiles_at();
    if (packed.tensor_scales == 0) return g;
    g.tensor_scales = static_cast<const std::byte*>(packed.data) + formats::PackedSections::tensor_scales_at();
    g.tensor_scale_stride = packed.tensor_scales > 1 ? 1 : 0;
    return g;
}

Geometry geometry(const Problem& p) {
    ++times_made.geometries;
    const PackedWeights& packed = p.b.packed;
    const Grouping grouping = p.groups.grouping;
    Geometry g;
    g.a = operand_geometry(p.a, a_is_transposed(p.layout), has_group_dimension_a(grouping));
    g.b = packed.given() ? packed_operand(packed)
                         : operand_geometry(p.b, b_is_transposed(p.layout), has_group_dimension_b(grouping));
    g.a.flat = grouping == Grouping::k_grouped_flat && !a_is_transposed(p.layout);
    g.b.flat = grouping == Grouping::k_grouped_flat && !b_is_transposed(p.layout);
    g.a.scales_restart_per_group = g.b.scales_restart_per_group =
        grouping == Grouping::k_grouped || grouping == Grouping::k_grouped_flat;
    const int d_rank = p.d.shape.rank();
    const int a_first = has_group_dimension_a(grouping) ? 1 : 0;
    g.m = p.d.shape[d_rank - 2];
    g.n = p.d.shape[d_rank - 1];
    g.k = p.a.values.shape[a_is_transposed(p.layout) ? a_first : a_first + 1];
    if (is_k_grouped(grouping)) g.groups = p.d.shape[0];
    if (has_group_dimension_b(grouping)) g.groups = packed.given() ? packed.groups : p.b.values.shape[0];
    g.output = p.d.format;
    g.d = output_geometry(p.d);
    g.c = p.bias.given() ? bias_geometry(p.bias) : output_geometry(p.c);
    if (p.bias.given()) g.bias = p.bias.format;
    g.alpha = p.alpha;
    g.accumulation = p.accumulation;
    g.grouping = p.groups;
    g.expected_m = p.expected_m;
    return g;
}

std::vector<GroupGemm> group_gemms(const Geometry& g) {
    std::vector<GroupGemm> list = all_gemms(g);
    std::erase_if(list, [](const GroupGemm& gemm) { return gemm.rows <= 0; });
    if (is_k_grouped(g.grouping.grouping)) return list;
    for (GroupGemm& gemm : list) {
        gemm.a = {.value = gemm.group * g.a.value_strides.group, .row_stride = g.a.value_strides.row};
        gemm.b = {.value = gemm.group * g.b.value_strides.group, .row_stride = g.b.value_strides.row};
    }
    return list;
}

}  // namespace tilewright
