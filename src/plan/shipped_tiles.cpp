#include "plan/shipped_tiles.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "hopper/description/design.h"
#include "plan/kernel_class.h"
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
    if (std::ranges::count(list, kernel) == 0) list.push_back(kernel);
}

// Rows of a tile and its warpgroups. One or two warpgroups own 64 or 128 rows each; 192 rows take three (third best of
// the promoted loops). Packed weights take four, each of which decodes 64 rows while the others multiply.
constexpr std::array row_choices{std::pair{64, 1}, std::pair{128, 2}, std::pair{192, 3}, std::pair{256, 2},
                                 std::pair{256, 4}};
constexpr std::array wide_columns{16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256};
// Tokens on the tensor core's n: few of them, in steps that waste little.
constexpr std::array token_columns{8, 16, 24, 32, 40, 48, 64, 72, 80, 88, 96, 104, 112, 128, 136, 160, 192};
constexpr std::array stage_choices{3, 4, 5, 6, 7, 8, 9, 10, 12, 16};
constexpr hopper::Cluster cluster_choices[] = {
    {}, {.columns = 2}, {.rows = 2}, {.k_slices = 2}, {.k_slices = 4}, {.k_slices = 8}};

void add_variants(Kernel tile, std::vector<Kernel>& list) {
    for (const hopper::Cluster& cluster : cluster_choices) {
        for (const int stages : stage_choices) {
            tile.cluster = cluster;
            tile.stages = stages;
            list.push_back(tile);
        }
    }
}

}  // namespace

std::vector<Kernel> shipped_tiles(const Kernel& shapeless) {
    std::vector<Kernel> list;
    for (const Kernel& shipped : all_shipped()) {
        if (const std::optional<Kernel> kernel = in_shape_of(shipped, shapeless)) add_new(*kernel, list);
    }
    if (scales_steps(shapeless) && !shapeless.b.is_packed()) list.push_back(device_tile(step_tile, shapeless));
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
        // The model takes the times of 1x128 : 128x128. For 1x128 : row with any output, 192x128 takes 1.40 times as
        // long as FP8's fast 128x256, and 128x256 1.11 times (docs/experiments/020-expanded-weights.md).
        if (tile.cluster.size() == 1 && tile.shape.warpgroups < 3) add_new(device_tile(tile, shapeless), list);
    }
    return list;
}

bool ships(const Kernel& tile) { return std::ranges::count(shipped_tiles(tile), tile) > 0; }

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
    return list.empty() || std::ranges::count(list, general_kernel(tile)) > 0;
}

std::vector<Kernel> expanded_tiles(const Kernel& shapeless) {
    const bool bf16 = shapeless.order.step == StepKind::bf16;
    return {device_tile(bf16 || !scales_steps(shapeless) ? expanded_tile : expanded_step_tile, shapeless)};
}

std::vector<Kernel> candidates(const Kernel& shapeless) {
    std::vector<Kernel> list;
    Kernel tile = shapeless;
    for (const bool swap : {false, true}) {
        tile.swap_ab = swap;
        for (const auto& [m, warpgroups] : std::span(row_choices).first(shapeless.b.is_packed() ? 5 : 4)) {
            for (const int n : swap ? std::span<const int>(token_columns) : wide_columns) {
                tile.shape = {.m = m, .n = n, .warpgroups = warpgroups};
                add_variants(tile, list);
            }
        }
    }
    return list;
}

}  // namespace tilewright::planner
