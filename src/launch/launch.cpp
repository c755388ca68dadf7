#include "launch/launch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/math.h"
#include "formats/packed_layout.h"
#include "hopper/description/design.h"
#include "hopper/schedule/dense.h"
#include "plan/kernel_class.h"
#include "plan/tile_distribution.h"
#include "plan/tma.h"
#include "problem/axes.h"
#include "problem/hopper_rules.h"

namespace tilewright::launch {
namespace {

using planner::OperandSizes;
using planner::scale_bytes;

// ---- Tensor maps for TMA copies of operands; plan/tma.h decides which operands TMA can copy

/// Empty dimensions are never copied, but TMA cannot describe them either.
hopper::u64 size(std::int64_t elements) { return static_cast<hopper::u64>(std::max<std::int64_t>(elements, 1)); }

/// The stride of a dimension of one index has no effect. TMA still requires it to be aligned.
hopper::u64 map_stride(std::int64_t elements, std::int64_t count, int element_bytes) {
    return static_cast<hopper::u64>(count > 1 ? elements * element_bytes : hopper_alignment);
}

/// Values as (k, row, batch), MN-major ones as (row, k, batch), swizzled. Without any k they are never read, and may
/// have no memory.
hopper::TensorMapDescription value_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                       const hopper::Design& tile, const hopper::OperandTile& part) {
    const int box_k = tile.stage_k / tile.k_boxes;  // elements in the 128 bytes of a row's box
    const int bytes = hopper::row_bytes / box_k;
    const auto box_rows = static_cast<hopper::u32>(part.box_rows);
    const Strides& strides = operand.value_strides;
    // Without any k no row is ever copied, and its stride may be anything.
    const std::int64_t rows = sizes.k == 0 ? 1 : sizes.rows;
    const std::int64_t batch = sizes.k == 0 ? 1 : sizes.batch;
    hopper::TensorMapDescription map{
        .base = sizes.k == 0 ? nullptr : operand.values,
        .element_bytes = bytes,
        .sizes = {size(sizes.k), size(sizes.rows), size(sizes.batch)},
        .strides = {map_stride(strides.row, rows, bytes), map_stride(strides.group, batch, bytes)},
        .box = {static_cast<hopper::u32>(box_k), box_rows, 1},
        .swizzled = true};
    if (part.side.form == hopper::Form::columns) {
        std::swap(map.sizes[0], map.sizes[1]);
        map.strides[0] = map_stride(strides.k, sizes.k, bytes);
        map.box[0] = box_rows;
        map.box[1] = static_cast<hopper::u32>(tile.stage_k);
    }
    return map;
}

/// Unpacked weights read in place, as (byte along k, row, batch), swizzled.
hopper::TensorMapDescription code_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                      const hopper::Design& tile) {
    const auto bytes = [](std::int64_t codes) { return codes / 2; };
    const bool any = sizes.k > 0;
    return {.base = any ? operand.values : nullptr,
            .element_bytes = 1,
            .sizes = {size(bytes(sizes.k)), size(sizes.rows), size(sizes.batch)},
            .strides = {map_stride(bytes(operand.value_strides.row), any ? sizes.rows : 1, 1),
                        map_stride(bytes(operand.value_strides.group), any ? sizes.batch : 1, 1)},
            .box = {hopper::raw_row_bytes, static_cast<hopper::u32>(tile.d_columns), 1},
            .swizzled = true};
}

/// 1x128 scales with adjacent rows, as (k block * stride + row, 1, batch). Rows and k blocks share one dimension: a box
/// that exceeds the rows of a k block takes longer if it leaves the tensor.
hopper::TensorMapDescription m_major_scale_map(const OperandGeometry& operand, const OperandSizes& sizes,
                                               int tile_rows) {
    return {.base = operand.scales,
            .element_bytes = scale_bytes,
            .sizes = {size(planner::m_major_span(operand, sizes)), 1, size(sizes.batch)},
            .strides = {hopper_alignment, map_stride(operand.scale_strides.group, sizes.batch, scale_bytes)},
            .box = {static_cast<hopper::u32>(tile_rows), 1, 1},
            .swizzled = false};
}

/// 1x128 scales with adjacent k blocks, as (k block, row, batch), with `k_blocks_at_once` of them per row.
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

/// D, or C, as (column, row, batch), swizzled.
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

// ---- The launch

hopper::OutputFormat output_format(Format format) {
    if (format == Format::bf16) return hopper::OutputFormat::bf16;
    return format == Format::f16 ? hopper::OutputFormat::f16 : hopper::OutputFormat::f32;
}

/// f32 numbers that do not vary along k: the tensor scales of NVFP4, which all rows of a group share, or factors of
/// rows.
hopper::ScaleView numbers_of_rows(const void* numbers, std::int64_t group_stride, std::int64_t row_stride,
                                  std::int64_t rows, std::int64_t k) {
    return {.data = k == 0 ? nullptr : numbers,
            .batch_stride = group_stride,
            .row_stride = row_stride,
            .k_stride = 0,
            .rows = static_cast<int>(rows),
            .k_blocks = 1,
            .format = hopper::ScaleFormat::f32};
}

hopper::ScaleView scale_view(const OperandGeometry& operand, const hopper::Side& side, std::int64_t rows,
                             std::int64_t k) {
    if (side.is_nvfp4()) return numbers_of_rows(operand.tensor_scale, operand.tensor_scale_stride, 0, rows, k);
    // Without any k there is nothing to scale: D is C, or zeros, even if a scale is NaN.
    return {
        .data = k == 0 ? nullptr : operand.scales,
        .batch_stride = operand.scale_strides.group,
        .row_stride = operand.scale_strides.row,
        .k_stride = operand.scale_strides.k,
        // A scale of all rows has a row stride of zero, so that every row finds it.
        .rows = static_cast<int>(operand.row_block() == 0 ? rows : ceil_div<std::int64_t>(rows, operand.row_block())),
        .k_blocks = static_cast<int>(planner::scale_columns(operand, k)),
        .format = operand.recipe.scales == Format::ue8m0 ? hopper::ScaleFormat::ue8m0 : hopper::ScaleFormat::f32};
}

/// The factors of packed rows, which are the first words of pairs.
hopper::ScaleView packed_row_factors(const Geometry& g) {
    static_assert(offsetof(formats::PackedRow, end_factor) == 0);
    constexpr int words = sizeof(formats::PackedRow) / sizeof(float);
    return numbers_of_rows(g.b.packed.rows, g.b.packed.row_tiles * formats::packed_rows * words, words, g.n, g.k);
}

hopper::OutputView output_view(const OutputGeometry& output) {
    return {.data = output.data,
            .batch_stride = output.group_stride,
            .row_stride = output.row_stride,
            .column_stride = output.column_stride};
}

hopper::GroupedOperand grouped_operand(const OperandGeometry& operand) {
    return {.values = static_cast<const hopper::u8*>(operand.values),
            .stride = operand.value_strides.row,
            .flat = operand.flat};
}

hopper::GroupValues group_values(const Geometry& g) {
    std::int64_t columns = hopper_size_limit;
    for (const OperandGeometry* operand : {&g.a, &g.b}) {
        if (operand->k_block() != 0) columns = std::min(columns, planner::scale_columns(*operand, g.k));
    }
    return {.a = grouped_operand(g.a), .b = grouped_operand(g.b), .columns = static_cast<int>(columns)};
}

hopper::AllArguments arguments(const Geometry& g, const planner::KernelPlan& kernel) {
    const hopper::Design& tile = kernel.tile;
    hopper::AllArguments result{};
    result.scales_a = scale_view(g.a, tile.a, g.m, g.k);
    result.scales_b = scale_view(g.b, tile.b, g.n, g.k);
    if (const PackedGeometry& packed = g.b.packed; tile.b.is_packed()) {
        result.packed = {.first = static_cast<const hopper::u8*>(packed.tiles),
                         .row_tiles = static_cast<int>(packed.row_tiles),
                         .k_blocks = static_cast<int>(packed.k_blocks),
                         .tile_bytes = static_cast<int>(packed.tile_bytes)};
        result.scales_b = tile.b.is_nvfp4()
                              ? numbers_of_rows(packed.tensor_scales, packed.tensor_scale_stride, 0, g.n, g.k)
                              : packed_row_factors(g);
    }
    result.output = output_view(g.d);
    result.addend = output_view(g.c);
    result.format = output_format(g.output);
    result.addend_format = output_format(g.addend());
    // Without any k the sums are 0, and -1 * 0 + C is C including the sign of its zeros.
    result.alpha = g.k > 0 ? g.alpha : g.c.given ? -1.0F : 1.0F;
    result.m = static_cast<int>(g.m);
    result.n = static_cast<int>(g.n);
    result.k = static_cast<int>(g.k);
    result.batch = static_cast<int>(g.groups);
    result.raster_width = raster_width(g, tile);
    result.scheduler = hopper::scheduler_params(
        tile, {.m = result.m, .n = result.n, .batch = result.batch, .raster_width = result.raster_width});
    result.sizes = group_sizes(g);
    if (tile.groups == hopper::Groups::k_anywhere) result.groups_of_k = group_values(g);
    result.stored_by_tma = kernel.stores_by_tma;
    result.scales_by_tma = kernel.scales_by_tma;
    return result;
}

void add_scale_maps(const Geometry& g, const hopper::Design& tile, Launch& launch) {
    if (planner::has_1x128_scales(tile.a, tile.order.a)) {
        launch.a_scales = tile.scales_along_k ? k_major_scale_map(g.a, planner::sizes_of_a(g), tile.d_rows,
                                                                  tile.k_blocks_per_scale_copy)
                                              : m_major_scale_map(g.a, planner::sizes_of_a(g), tile.d_rows);
    }
    if (planner::has_1x128_scales(tile.b, tile.order.b)) {
        launch.b_scales = m_major_scale_map(g.b, planner::sizes_of_b(g), tile.d_columns);
    }
}

/// Smaller boxes for the last row of tiles, if it loads fewer rows of A.
void add_last_maps(const Geometry& g, const hopper::Design& tile, Launch& launch) {
    const int rows = rows_of_a(tile, static_cast<int>(g.m % tile.d_rows));
    if (tile.groups == hopper::Groups::rows || tile.groups == hopper::Groups::k_anywhere || rows % tile.d_rows == 0)
        return;
    launch.a_last = launch.a;
    launch.a_last->box[1] = static_cast<hopper::u32>(tile.cluster.columns > 1 ? rows / tile.cluster.size() : rows);
    if (!launch.a_scales || !tile.scales_along_k) return;
    launch.a_scales_last = launch.a_scales;
    launch.a_scales_last->box[1] = static_cast<hopper::u32>(rows);
}

/// The kernel writes maps with other addresses, sizes and strides, so that these values are placeholders here.
void make_templates(Launch& launch) {
    for (hopper::TensorMapDescription* map : {&launch.a, &*launch.b}) {
        map->base = nullptr;
        map->sizes[0] = hopper_alignment;
        map->strides[0] = map->strides[1] = hopper_alignment;
    }
}

/// Limits a count to a number that is enough for any GPU. The product of three such counts does not overflow.
std::int64_t clamp_count(std::int64_t count) { return std::min<std::int64_t>(count, 1 << 19); }

/// The largest number of row tiles of all groups together. In a cluster along the rows they are counted in pairs.
std::int64_t row_tiles(const Geometry& g, int rows) {
    if (g.groups == 0) return 0;
    const std::int64_t whole = clamp_count(ceil_div<std::int64_t>(g.m, rows));
    if (!groups_share_a_matrix(g.grouping.grouping)) return clamp_count(g.groups) * whole;
    // Each run of rows may end in a tile that it does not fill.
    const bool any_order = g.grouping.grouping == Grouping::m_grouped_indices;
    const std::int64_t runs =
        any_order ? ceil_div<std::int64_t>(g.m, planner::group_alignment(g)) : std::min(g.groups, g.m);
    return whole + clamp_count(runs);
}

}  // namespace

hopper::GroupSizes group_sizes(const Geometry& g) {
    const Groups& groups = g.grouping;
    if (!takes_sizes(groups.grouping)) return {};
    const std::int64_t alignment = planner::group_alignment(g);
    hopper::GroupSizes sizes{.data = groups.sizes.data,
                             .stride = groups.sizes.strides[0],
                             .row_stride = groups.sizes.strides[0],
                             .alignment = static_cast<int>(alignment),
                             .blocks = 0,
                             .kind = hopper::SizeKind::ends,
                             .is_64_bit = groups.sizes.format == Format::i64};
    if (groups.grouping == Grouping::m_grouped_masked || groups.grouping == Grouping::k_grouped_flat) {
        sizes.kind = hopper::SizeKind::counts;
    } else if (groups.grouping == Grouping::m_grouped_indices) {
        sizes.kind = hopper::SizeKind::indices;
        sizes.stride *= alignment;
        sizes.blocks = static_cast<int>(ceil_div<std::int64_t>(g.m, alignment));
    }
    return sizes;
}

int raster_width(const Geometry& g, const hopper::Design& tile) {
    // Keeps the rows of A and the columns of B that are multiplied at the same time in L2.
    constexpr int square = 8;
    // D of f32 with C is mostly memory traffic, which is faster along D's rows. Between 17 and 29 MB of B this turns
    // from 2 % faster to 3 % slower (docs/experiments/009-raster-of-f32-output.md).
    constexpr int along_rows = 2;
    constexpr std::int64_t bytes_that_stay = 20'000'000;
    const std::int64_t k = is_k_grouped(g.grouping.grouping) ? ceil_div<std::int64_t>(g.k, g.groups) : g.k;
    const bool b_stays = g.n * k <= bytes_that_stay;
    return tile.output == hopper::Output::f32_by_tma && g.c.given && b_stays ? along_rows : square;
}

int blocks(const Geometry& g, const hopper::Design& tile, int sms) {
    const std::int64_t columns = clamp_count(ceil_div<std::int64_t>(g.n, tile.d_columns * tile.cluster.columns));
    const std::int64_t clusters = clamp_count(row_tiles(g, tile.d_rows * tile.cluster.rows)) * columns;
    const int at_once = std::max(planner::resident_blocks(tile, sms), tile.cluster.size());
    return static_cast<int>(std::min<std::int64_t>(clusters * tile.cluster.size(), at_once));
}

Launch lower(const Geometry& g, const planner::KernelPlan& kernel, int sms) {
    const hopper::Design& tile = kernel.tile;
    Launch result{.arguments = arguments(g, kernel),
                  .blocks = blocks(g, tile, sms),
                  .cluster = tile.cluster.size(),
                  .threads = tile.threads,
                  .shared_bytes = tile.shared_bytes};
    const OperandSizes of_a = planner::sizes_of_a(g), of_b = planner::sizes_of_b(g);
    result.a = value_map(g.a, of_a, tile, tile.operand_a());
    if (tile.b.form == hopper::Form::rows_and_tiles) {
        result.b = code_map(g.b, of_b, tile);
    } else if (!tile.b.is_packed()) {
        result.b = value_map(g.b, of_b, tile, tile.operand_b());
    }
    if (tile.groups == hopper::Groups::k_anywhere) make_templates(result);
    if (kernel.stores_by_tma) result.d = output_map(g, g.d, tile);
    if (tile.output == hopper::Output::f32_by_tma && g.c.given) result.c = output_map(g, g.c, tile);
    if (kernel.scales_by_tma) add_scale_maps(g, tile, result);
    add_last_maps(g, tile, result);
    return result;
}

}  // namespace tilewright::launch
