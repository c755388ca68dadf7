#include "launch/launch.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "hopper/schedule/dense.h"
#include "hopper/tile/roles.h"
#include "hopper/tile/stage_layout.h"
#include "launch/groups.h"
#include "launch/maps.h"
#include "plan/spread.h"

namespace tilewright::launch {
namespace {

/// `value` / `by`, rounded up.
std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Enough for any GPU, and three of them multiply without overflow.
std::int64_t few(std::int64_t count) { return std::min<std::int64_t>(count, 1 << 19); }

hopper::OutputFormat output_format(Format format) {
    if (format == Format::bf16) return hopper::OutputFormat::bf16;
    return format == Format::f16 ? hopper::OutputFormat::f16 : hopper::OutputFormat::f32;
}

hopper::ScaleView scale_view(const OperandGeometry& operand, std::int64_t rows, std::int64_t k) {
    return {.data = operand.scales,
            .batch_stride = operand.scale_strides.group,
            .row_stride = operand.scale_strides.row,
            .k_stride = operand.scale_strides.k,
            // A scale of all rows has a stride of zero, so that any row finds it.
            .rows = static_cast<int>(operand.row_block() == 0 ? rows : divide_up(rows, operand.row_block())),
            .k_blocks = static_cast<int>(k_blocks(operand, k)),
            .format = operand.recipe.scales == Format::ue8m0 ? hopper::ScaleFormat::ue8m0 : hopper::ScaleFormat::f32};
}

hopper::OutputView output_view(const OutputGeometry& output) {
    return {.data = output.data,
            .batch_stride = output.group_stride,
            .row_stride = output.row_stride,
            .column_stride = output.column_stride};
}

const void* aligned_down(const void* address) {
    return std::bit_cast<const void*>(std::bit_cast<std::uintptr_t>(address) & ~std::uintptr_t{15});
}

/// All of the tile's, unless it is the only one along the rows and not full.
std::int64_t rows_of_a_copy(const Geometry& g, const hopper::Tile& tile) {
    const bool fewer = may_load_fewer_rows(tile) && g.m > 0;
    return fewer ? std::min<std::int64_t>(g.m, d_rows(tile)) : d_rows(tile);
}

hopper::Arguments arguments(const Geometry& g, const hopper::Tile& tile) {
    hopper::Arguments result{};
    result.scales_a = scale_view(g.a, g.m, g.k);
    result.scales_b = scale_view(g.b, g.n, g.k);
    result.output = output_view(g.d);
    result.addend = output_view(g.c);
    result.format = output_format(g.output);
    result.alpha = g.alpha;
    result.m = static_cast<int>(g.m);
    result.n = static_cast<int>(g.n);
    result.k = static_cast<int>(g.k);
    result.batch = static_cast<int>(g.groups);
    result.a_rows = static_cast<int>(rows_of_a_copy(g, tile));
    result.raster_width = raster_width;
    result.scheduler = hopper::scheduler_params(
        tile, {.m = result.m, .n = result.n, .batch = result.batch, .raster_width = raster_width});
    result.sizes = group_sizes(g);
    return result;
}

/// Whether the kernel for common calls alone (Tile::plain) can serve this one, however its scales come.
bool is_common(const hopper::Arguments& arguments) {
    return arguments.k > 0 && arguments.stored_by_tma && arguments.format == hopper::OutputFormat::bf16 &&
           arguments.alpha == 1;
}

/// Whether every tile begins at a row whose scale TMA can begin with: loads of scales that began at no multiple of 16
/// bytes were an "illegal instruction" on an H200.
bool begins_aligned(const hopper::Tile& tile, const hopper::GroupSizes& sizes) {
    if (!is_grouped(tile) || sizes.kind == hopper::SizeKind::counts) return true;
    return sizes.kind == hopper::SizeKind::ends && sizes.alignment % 4 == 0 && d_rows(tile) % 4 == 0;
}

/// Scales of rows by TMA: of both operands or of none, one flag of the kernel stands for both. And with them which
/// kernel of the tile it is.
void add_scale_maps(const Geometry& g, Launch& launch) {
    hopper::Tile& tile = launch.tile;
    const hopper::OperandTile a = operand_a(tile);
    const hopper::OperandTile b = operand_b(tile);
    const bool needs_a = a.spec.scaling == hopper::Scaling::block_1x128;
    const bool needs_b = b.spec.scaling == hopper::Scaling::block_1x128;
    const bool common = is_common(launch.arguments);
    const OperandSizes rows_of_a{.rows = g.m, .k = g.k, .batch = matrices(g)};
    tile.variant = hopper::Variant::general;
    if (needs_a && begins_aligned(tile, launch.arguments.sizes)) launch.a_scales = scale_map(g.a, rows_of_a, a.rows);
    if (needs_b) launch.b_scales = scale_map(g.b, {.rows = g.n, .k = g.k, .batch = g.groups}, b.rows);
    if (needs_a && !launch.a_scales && common && !fast_loads_row_scales(tile)) {
        tile.variant = hopper::Variant::fast_k_major_scales;
        const bool fits = shared_bytes(tile) <= hopper::shared_bytes_limit;  // they take four times the room
        if (fits) launch.a_scales = scale_map_by_row(g.a, rows_of_a, a.rows, k_blocks_per_scale_copy(tile));
    }
    const bool all = launch.a_scales.has_value() == needs_a && launch.b_scales.has_value() == needs_b;
    launch.arguments.scales_by_tma = all && (needs_a || needs_b);
    if (!common || (!all && !fast_loads_row_scales(tile))) {
        tile.variant = hopper::Variant::general;
    } else if (!has_k_major_scales(tile)) {
        tile.variant = hopper::Variant::fast;
    }
    if (all) return;
    launch.a_scales.reset();
    launch.b_scales.reset();
}

hopper::Tile alone(hopper::Tile tile) {
    tile.cluster = {};
    return tile;
}

}  // namespace

int blocks(const Geometry& g, const hopper::Tile& tile, int sms) {
    const std::int64_t columns = few(divide_up(g.n, hopper::cluster_columns(tile)));
    const std::int64_t clusters = few(row_tiles(g, hopper::cluster_rows(tile))) * columns;
    const int at_once = std::max(planner::slots(tile, sms), tile.cluster.size);
    return static_cast<int>(std::min<std::int64_t>(clusters * tile.cluster.size, at_once));
}

Launch launch(const Geometry& g, const hopper::Tile& tile, int sms) {
    Launch result{.tile = tile, .arguments = arguments(g, tile)};
    result.a = value_map(g.a, {.rows = g.m, .k = g.k, .batch = matrices(g)}, tile, operand_a(tile));
    if (may_load_fewer_rows(tile)) result.a.box[1] = static_cast<hopper::u32>(result.arguments.a_rows);
    result.b = value_map(g.b, {.rows = g.n, .k = g.k, .batch = g.groups}, tile, operand_b(tile));
    // Without any k the operands are never read, and may have no memory; a tensor map needs an address all the same.
    if (g.k == 0) result.a.base = result.b.base = aligned_down(g.d.data);
    result.d = output_map(g, tile);
    result.arguments.stored_by_tma = result.d.has_value();
    add_scale_maps(g, result);
    // Pairs of blocks that share an operand ship for common calls alone.
    if (shares_operand(tile) && !is_fast(result.tile)) return launch(g, alone(tile), sms);
    result.blocks = blocks(g, tile, sms);
    result.cluster = tile.cluster.size;
    result.threads = block_threads(tile);
    result.shared_bytes = shared_bytes(result.tile);
    return result;
}

}  // namespace tilewright::launch
