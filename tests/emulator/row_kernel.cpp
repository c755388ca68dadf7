#include "emulator/row_kernel.h"

#include "check/case.h"
#include "gpu/tile_recipe.h"
#include "plan/kernel_class.h"
#include "plan/shipped_kernels.h"
#include "plan/variant.h"
#include "plan/workload.h"
#include "problem/workspace_plan.h"
#include "sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace tilewright::tests {
namespace {

Grouping grouping_of(Groups groups) {
    switch (groups) {
        case Groups::none: return Grouping::dense;
        case Groups::rows: return Grouping::m_grouped_offsets;
        case Groups::k_aligned: return Grouping::k_grouped_aligned_offsets;
        case Groups::k_anywhere: return Grouping::k_grouped;
    }
    return Grouping::dense;
}

/// A small call of the row, from which the planner tells the kernel.
check::CaseSpec small_call(const KernelRow& row) {
    const std::optional<Recipe> recipe = parse_recipe(row.recipes.at(0));
    if (!recipe) throw std::invalid_argument(fmt::format("got '{}'; expected a recipe", row.recipes[0]));
    check::CaseSpec spec{.grouping = grouping_of(row.groups),
                         .recipe = *recipe,
                         .layout = row.layout,
                         .m = 64,
                         .n = 64,
                         .k = 256,
                         .groups = row.groups == Groups::none ? 1 : 2};
    if (row.unpromoted) spec.accumulation = Accumulation::unpromoted;
    if (row.operands == Operands::wide) spec.far_scales = {.one_row_in = 1, .spread = 254};
    if (row.operands == Operands::unpacked) spec.b_gaps.row = 6;  // codes that TMA cannot load
    return spec;
}

Serves serves_of(const hopper::Kernel& kernel) {
    if (kernel.output == hopper::Output::any) return Serves::any;
    if (kernel.output == hopper::Output::f32_by_tma) return Serves::f32;
    return kernel.scales_along_k ? Serves::bf16_copies : Serves::bf16;
}

}  // namespace

hopper::Kernel tile_of(const KernelRow& row) {
    check::Case call(small_call(row));
    Problem problem = call.problem();
    OwnedPackedWeights weights;
    const bool expands = row.operands == Operands::expanded;
    if (row.operands == Operands::packed || row.operands == Operands::wide || expands) {
        weights = pack_weights(problem.b, packed_for(call.spec().recipe.a));
        problem.b = {.packed = weights};
    }
    const Geometry g = geometry(problem);
    const WorkspacePlan before = workspace_plan(g, expands);
    const planner::Workload work =
        planner::workload(problem, {.geometry = g, .before = before, .product = after_workspace(g, before, nullptr)});
    hopper::Kernel kernel = planner::device_tile(row.tile, planner::shapeless_kernel(work));
    const hopper::Kernel of_call = planner::variant(work.geometry, kernel);
    kernel.b.form = of_call.b.form;  // values in place
    kernel.wide_rows = of_call.wide_rows;
    if (row.serves == Serves::f32) kernel.output = hopper::Output::f32_by_tma;
    if (row.serves == Serves::bf16 || row.serves == Serves::bf16_copies) kernel.output = hopper::Output::bf16_by_tma;
    if (row.serves == Serves::bf16_copies) kernel.scales_along_k = true;
    kernel.debug.every_lane_arrives = row.every_lane;
    if (const char* why = planner::contradiction(kernel)) {
        throw std::invalid_argument(fmt::format("{}: {}: {}", row.place, row.text, why));
    }
    return kernel;
}

KernelRow row_of(const hopper::Kernel& shipped) {
    KernelRow row;
    row.recipes = {test::tile_recipe(shipped)};
    if (shipped.order.folded == Folded::b && !shipped.b.is_packed()) {
        row.recipes = {shipped.order.a == ScaleUse::chains ? "1x128:mxfp4" : "row:mxfp4"};
        row.operands = Operands::expanded;
    }
    if (row.recipes[0] == "row:row") row.recipes.emplace_back("tensor:tensor");
    row.groups = shipped.groups;
    if (shipped.a.form == hopper::Form::columns) row.layout = Layout::tt;
    if (shipped.b.form == hopper::Form::columns) row.layout = Layout::nn;
    if (shipped.b.is_packed()) row.operands = shipped.wide_rows ? Operands::wide : Operands::packed;
    row.unpromoted = shipped.order.chain == 0 && shipped.order.step == StepKind::fp8;
    row.tile = planner::planned_tile(shipped);
    row.serves = serves_of(shipped);
    row.place = "shipped";
    row.text = fmt::format("{} {} {} {} | {} | {}", row.recipes[0], name(row.groups), tilewright::name(row.layout),
                           name(row.operands), name(row.tile), name(row.serves));
    return row;
}

std::vector<hopper::Kernel> emulated_tiles(const Matrix& matrix) {
    std::vector<hopper::Kernel> tiles;
    if (!sanitizes) tiles = planner::shipped_kernels();
    for (const KernelRow& row : matrix.kernels) {
        if (sanitizes && !row.sanitize) continue;
        const hopper::Kernel tile = tile_of(row);
        if (std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
    }
    return tiles;
}

}  // namespace tilewright::tests
