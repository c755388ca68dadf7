#include "plan/shipped_tiles.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "hopper/description/design.h"
#include "hopper/description/rules.h"
#include "plan/kernel_class.h"
#include "plan/pack.h"

namespace tilewright::planner {

using hopper::Kernel;

namespace {

const std::vector<Kernel>& whole_pack() {
    static const std::vector<Kernel> all = pack();
    return all;
}

bool scales_steps(const Kernel& kernel) { return kernel.order.chain == hopper::step_k; }
bool has_mn_major(const Kernel& kernel) {
    return kernel.a.form == hopper::Form::columns || kernel.b.form == hopper::Form::columns;
}

/// The class of `family` with a tile of the pack, if the tile serves it.
std::optional<Kernel> served(Kernel tile, const Kernel& family) {
    if (tile.output == hopper::Output::f32_by_tma) return std::nullopt;  // it may have other stages than its tile
    if (!has_all_outputs(tile)) return std::nullopt;                     // unshipped_tiles has it among all others
    const bool packed = family.b.is_packed(), bf16 = family.order.step == StepKind::bf16;
    if (tile.b.is_packed() != packed) return std::nullopt;
    // A tile ships in several kernels; which of them runs depends on the call.
    tile.output = hopper::Output::any;
    tile.scale_order = hopper::ScaleOrder::along_rows;
    tile.wide_rows = false;
    // Next to 1x32 scales bf16 on both sides has fp8's shapes, in as many bytes.
    const bool as_fp8 = scales_steps(family) && !packed;
    if ((tile.order.step == StepKind::bf16) != (bf16 && !as_fp8)) return std::nullopt;
    // Shapes for 1x128 scales also serve 1x32, compiled on first use, with 64 rows per warpgroup.
    if (scales_steps(family) && has_1x128_scales(tile.a, tile.order.a) && !has_mn_major(tile)) {
        if (packed) tile.shape.warpgroups = tile.shape.m / hopper::wgmma_m;
        if (tile.shape.m != tile.shape.warpgroups * hopper::wgmma_m) return std::nullopt;
        tile = with_scales(tile, family);
    }
    if (tile.order.step == StepKind::bf16) tile = with_scales(tile, family);
    tile.a.values = family.a.values;
    tile.b.values = family.b.values;
    // Stages hold more scales than those of the tile that ships.
    if (bf16 && tile.order.has(ScaleUse::chains)) tile = fitted(tile);
    const bool serves = tile.order == family.order && tile.a == family.a && tile.b == family.b;
    return serves && tile.groups == family.groups ? std::optional(tile) : std::nullopt;
}

}  // namespace

std::vector<Kernel> shipped_tiles(const Kernel& family) {
    std::vector<Kernel> list;
    for (const Kernel& shipped : whole_pack()) {
        const std::optional<Kernel> tile = served(shipped, family);
        if (tile && std::ranges::find(list, *tile) == list.end()) list.push_back(*tile);
    }
    if (scales_steps(family) && !family.b.is_packed()) list.push_back(with_shape(family, step_tile));
    return list;
}

std::vector<Kernel> unshipped_tiles(const Kernel& family) {
    if (has_all_outputs(family) || family.order.step == StepKind::bf16 || family.order.chain == 0) return {};
    constexpr Recipe blocks{{.granularity = Granularity::block_1x128}, {.granularity = Granularity::block_128x128}};
    Kernel model = kernel_class(blocks, Accumulation::promoted, Format::e4m3, Format::e4m3);
    model.a.values = family.a.values;
    model.b.values = family.b.values;
    model.a.form = family.a.form;
    model.b.form = family.b.form;
    model.groups = family.groups;
    if (family.groups == hopper::Groups::k_anywhere) model.groups = hopper::Groups::k_aligned;
    if (family.groups == hopper::Groups::none && !has_mn_major(family)) model.groups = hopper::Groups::rows;
    std::vector<Kernel> list = shipped_tiles(model);
    // The model assumes that kernels for any output are as fast as those that load scales by TMA. For 1x128 : row,
    // 192x128 takes 1.40 times as long as FP8's fast 128x256, and 128x256 1.11 times
    // (docs/experiments/020-expanded-weights.md).
    std::erase_if(list, [](const Kernel& tile) { return tile.cluster.size > 1 || tile.shape.warpgroups == 3; });
    for (Kernel& tile : list) {
        tile = with_scales(tile, family);
        tile.groups = family.groups;
    }
    return list;
}

bool ships(const Kernel& tile) {
    const std::vector<Kernel> list = shipped_tiles(tile);
    return std::ranges::find(list, tile) != list.end();
}

std::vector<Kernel> general_tiles(const Kernel& family) {
    std::vector<Kernel> list;
    std::ranges::copy_if(whole_pack(), std::back_inserter(list), [&](const Kernel& tile) {
        return tile.output == hopper::Output::any && tile.order == family.order && tile.a == family.a &&
               tile.b == family.b && tile.groups == family.groups;
    });
    return list;
}

bool serves_general_calls(const Kernel& tile) {
    const std::vector<Kernel> list = general_tiles(tile);
    return list.empty() || std::ranges::find(list, general_kernel(tile)) != list.end();
}

std::vector<Kernel> expanded_tiles(const Kernel& family) {
    if (family.order.step == StepKind::bf16) return {with_shape(family, expanded_bf16_tile)};
    return {with_shape(family, scales_steps(family) ? expanded_step_tile : expanded_tile)};
}

}  // namespace tilewright::planner
