#include "plan/shipped_tiles.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "hopper/description/design.h"
#include "plan/kernel_class.h"
#include "plan/kernel_rules.h"
#include "plan/planned_tile.h"
#include "plan/shipped_kernels.h"

namespace tilewright::planner {

using hopper::Kernel;

namespace {

const std::vector<Kernel>& all_shipped() {
    static const std::vector<Kernel> all = shipped_kernels();
    return all;
}

bool scales_steps(const Kernel& kernel) { return kernel.order.chain == hopper::step_k; }
bool has_mn_major(const Kernel& kernel) {
    return kernel.a.form == hopper::Form::columns || kernel.b.form == hopper::Form::columns;
}

bool has_scales_of(const Kernel& one, const Kernel& other) {
    const auto alike = [](const hopper::Side& x, const hopper::Side& y) {
        return x.scale_rows == y.scale_rows && x.scale_k == y.scale_k;
    };
    return one.order == other.order && alike(one.a, other.a) && alike(one.b, other.b);
}
bool has_forms_of(const Kernel& one, const Kernel& other) {
    return one.a.form == other.a.form && one.b.form == other.b.form;
}

/// `shapeless` in the shape of a tile of the pack, if the shape serves it. The tile differs at most in the formats of
/// values, or its scales take as many registers.
std::optional<Kernel> in_shape_of(const Kernel& tile, const Kernel& shapeless) {
    // A kernel for D of f32 may have other stages than its tile.
    if (tile.output == hopper::Output::f32_by_tma || tile.groups != shapeless.groups) return std::nullopt;
    const bool packed = shapeless.b.is_packed(), bf16 = shapeless.order.step == StepKind::bf16;
    if (tile.b.is_packed() != packed) return std::nullopt;
    // Next to 1x32 scales bf16 on both sides has fp8's shapes, in as many bytes.
    const bool as_fp8 = scales_steps(shapeless) && !packed;
    const bool tile_is_bf16 = tile.order.step == StepKind::bf16;
    if (tile_is_bf16 != (bf16 && !as_fp8)) return std::nullopt;
    // Shapes for 1x128 scales also serve 1x32, compiled on first use, with 64 rows per warpgroup.
    const bool for_steps = scales_steps(shapeless) && has_1x128_scales(tile.a, tile.order.a) && !has_mn_major(tile);
    const bool same = has_scales_of(tile, shapeless) && has_forms_of(tile, shapeless);
    if (!for_steps && !tile_is_bf16 && !same) return std::nullopt;
    Kernel kernel = device_tile(tile, shapeless);
    if (for_steps && packed) kernel.shape.warpgroups = kernel.shape.m / hopper::wgmma_m;
    if (for_steps && kernel.shape.m != kernel.shape.warpgroups * hopper::wgmma_m) return std::nullopt;
    // Stages hold more scales than those of the tile that ships.
    return bf16 && kernel.order.has(ScaleUse::chains) ? fitted(kernel) : kernel;
}

void add_new(const Kernel& kernel, std::vector<Kernel>& list) {
    if (std::ranges::find(list, kernel) == list.end()) list.push_back(kernel);
}

}  // namespace

std::vector<Kernel> shipped_tiles(const Kernel& shapeless) {
    std::vector<Kernel> list;
    for (const Kernel& shipped : all_shipped()) {
        if (const std::optional<Kernel> kernel = in_shape_of(shipped, shapeless)) add_new(*kernel, list);
    }
    if (scales_steps(shapeless) && !shapeless.b.is_packed()) list.push_back(with_shape(shapeless, step_tile));
    return list;
}

std::vector<Kernel> unshipped_tiles(const Kernel& shapeless) {
    if (shapeless.order.step == StepKind::bf16 || shapeless.order.chain == 0) return {};
    if (!shipped_tiles(shapeless).empty()) return {};
    constexpr Recipe recipe{{.granularity = Granularity::block_1x128}, {.granularity = Granularity::block_128x128}};
    constexpr Kernel blocks = kernel_class(recipe, Accumulation::promoted, Format::e4m3, Format::e4m3);
    hopper::Groups groups = shapeless.groups;
    if (groups == hopper::Groups::k_anywhere) groups = hopper::Groups::k_aligned;
    if (groups == hopper::Groups::none && !has_mn_major(shapeless)) groups = hopper::Groups::rows;
    std::vector<Kernel> list;
    for (const Kernel& tile : all_shipped()) {
        if (tile.output != hopper::Output::bf16_by_tma || tile.groups != groups) continue;
        if (!has_scales_of(tile, blocks) || !has_forms_of(tile, shapeless)) continue;
        // The model assumes that kernels for any output are as fast as those that load scales by TMA. For 1x128 : row,
        // 192x128 takes 1.40 times as long as FP8's fast 128x256, and 128x256 1.11 times
        // (docs/experiments/020-expanded-weights.md).
        if (tile.cluster.size == 1 && tile.shape.warpgroups < 3) add_new(device_tile(tile, shapeless), list);
    }
    return list;
}

bool ships(const Kernel& tile) {
    const std::vector<Kernel> list = shipped_tiles(tile);
    return std::ranges::find(list, tile) != list.end();
}

std::vector<Kernel> general_tiles(const Kernel& shapeless) {
    std::vector<Kernel> list;
    std::ranges::copy_if(all_shipped(), std::back_inserter(list), [&](const Kernel& tile) {
        return tile.output == hopper::Output::any && tile.order == shapeless.order && tile.a == shapeless.a &&
               tile.b == shapeless.b && tile.groups == shapeless.groups;
    });
    return list;
}

bool serves_general_calls(const Kernel& tile) {
    const std::vector<Kernel> list = general_tiles(tile);
    return list.empty() || std::ranges::find(list, general_kernel(tile)) != list.end();
}

std::vector<Kernel> expanded_tiles(const Kernel& shapeless) {
    if (shapeless.order.step == StepKind::bf16) return {with_shape(shapeless, expanded_bf16_tile)};
    return {with_shape(shapeless, scales_steps(shapeless) ? expanded_step_tile : expanded_tile)};
}

}  // namespace tilewright::planner
