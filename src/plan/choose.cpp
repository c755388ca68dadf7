#include "plan/choose.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "base/math.h"
#include "hopper/description/design.h"
#include "hopper/schedule/dense.h"
#include "plan/cost.h"
#include "plan/kernel_class.h"
#include "plan/legality.h"
#include "plan/shipped_kernels.h"
#include "plan/shipped_tiles.h"
#include "plan/tuned.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {
namespace {

void judge_candidates(const Workload& work, const DeviceDescription& device, Explanation& explanation) {
    for (const hopper::Kernel& tile : candidates(shapeless_kernel(work))) {
        if (std::optional<RejectedTile> rejected = why_illegal(tile, work, device)) {
            explanation.rejected.push_back(std::move(*rejected));
        } else if (variant(work.geometry, tile).cluster != tile.cluster) {
            explanation.rejected.push_back({name(planned_tile(tile)), "cluster",
                                            "pairs of blocks have only fast kernels, which do not support this call"});
        } else {
            explanation.legal.push_back(plan_of(tile, work, device));
        }
    }
    std::ranges::stable_sort(explanation.legal, {}, [](const Plan& plan) { return plan.cost.seconds; });
}

std::vector<hopper::Kernel> legal_ones(std::vector<hopper::Kernel> tiles, const Workload& work,
                                       const DeviceDescription& device) {
    std::erase_if(tiles, [&](const hopper::Kernel& tile) { return why_illegal(tile, work, device).has_value(); });
    return tiles;
}

/// Tiles that ship, or would ship if their scales' kernels did. All tiles where none of these is legal.
std::vector<hopper::Kernel> choices(const Workload& work, const DeviceDescription& device) {
    const hopper::Kernel shapeless = shapeless_kernel(work);
    const bool expanded = work.if_not_expanded != nullptr;
    const std::vector<hopper::Kernel> ours = expanded ? expanded_tiles(shapeless) : shipped_tiles(shapeless);
    std::vector<hopper::Kernel> tiles = legal_ones(ours, work, device);
    if (tiles.empty()) tiles = legal_ones(unshipped_tiles(shapeless), work, device);
    // tests/plan: 64-row tiles are legal on any device, so that there are some.
    return tiles.empty() ? legal_ones(candidates(shapeless), work, device) : tiles;
}

/// The kernel of a tile by which it is chosen: that for D of bf16, where there is one. The addresses and alpha of a
/// call decide which one runs, and no choice depends on these. General kernels may have fewer registers and narrower
/// wgmmas.
hopper::Kernel usual_kernel(hopper::Kernel tile) {
    const hopper::Kernel general = tile;
    tile.output = hopper::Output::bf16_by_tma;
    return contradiction(tile) == nullptr ? tile : general;
}

/// `kernel_of` has the kernel of a tile that is priced.
template <class KernelOf>
std::vector<PricedTile> priced(const std::vector<hopper::Kernel>& tiles, const Workload& work,
                               const DeviceDescription& device, KernelOf kernel_of) {
    std::vector<PricedTile> list;
    list.reserve(tiles.size());
    for (const hopper::Kernel& tile : tiles) list.push_back({tile, cost(kernel_of(tile), work, device)});
    return list;
}

/// How much of D a tile is.
std::int64_t elements(const hopper::Kernel& tile) { return std::int64_t{tile.shape.m} * tile.shape.n; }

/// The time of each tile over that of the best one: the root of the mean square over all expectations.
std::vector<double> regrets(const std::vector<hopper::Kernel>& tiles, const Workload& work,
                            const DeviceDescription& device) {
    std::vector<double> sums(tiles.size(), 0);
    const std::vector<Workload> all = expectations(work);
    for (const Workload& expected : all) {
        const std::vector<PricedTile> list = priced(tiles, expected, device, usual_kernel);
        const auto seconds = [](const PricedTile& each) { return each.cost.seconds; };
        const double best = seconds(*std::ranges::min_element(list, {}, seconds));
        for (std::size_t i = 0; i < list.size(); ++i) sums[i] += std::pow(seconds(list[i]) / best - 1, 2);
    }
    for (double& sum : sums) sum = std::sqrt(sum / static_cast<double>(all.size()));
    return sums;
}

/// The tile with the least regret. If memory is its bound, the smallest tile whose regret exceeds the least by at most
/// `no_difference`. More blocks then share the loads of groups with few rows, many of which may be empty.
hopper::Kernel hinted_choice(const std::vector<hopper::Kernel>& tiles, const Workload& work,
                             const DeviceDescription& device) {
    const std::vector<double> each = regrets(tiles, work, device);
    const auto least = static_cast<std::size_t>(std::ranges::min_element(each) - each.begin());
    const Cost there = cost(usual_kernel(tiles[least]), work, device);
    if (there.memory < there.compute) return tiles[least];
    const double limit = each[least] + no_difference - 1;
    std::size_t best = least;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
        const auto size = [&](std::size_t at) { return std::tuple(elements(tiles[at]), each[at]); };
        if (each[i] <= limit && size(i) < size(best)) best = i;
    }
    return tiles[best];
}

/// Wide rows of weights do not change the choice, because a different split of k would change the bits of all other
/// rows: tiles without a variant are priced. The time of the workspace does not change it either.
hopper::Kernel model_choice(const Workload& work, const DeviceDescription& device) {
    const std::vector<hopper::Kernel> tiles = choices(work, device);
    if (!work.hinted) return best_of(priced(tiles, work, device, usual_kernel), last_stores_count(work)).tile;
    return hinted_choice(tiles, work, device);
}

/// The best tile for calls that need a general kernel, if that of `usual` does not ship. k is split alike.
TileChoice with_general_tile(const hopper::Kernel& usual, const Workload& work, const DeviceDescription& device) {
    if (serves_general_calls(usual)) return {usual, usual};
    std::vector<hopper::Kernel> tiles = legal_ones(general_tiles(usual), work, device);
    std::erase_if(tiles, [&](const hopper::Kernel& tile) { return tile.cluster.k_slices != usual.cluster.k_slices; });
    if (tiles.empty()) return {usual, usual};
    return {usual, best_of(priced(tiles, work, device, std::identity{}), last_stores_count(work)).tile};
}

/// A tuned tile that cannot run here (another device's, or `invariant` forbids its split) is rejected as any other.
void explain_tuned_row(const TunedRow& row, const Workload& work, const DeviceDescription& device,
                       Explanation& explanation) {
    if (std::optional<RejectedTile> rejected = why_illegal(row.tile, work, device)) {
        rejected->reason = fmt::format("tuned on {}: {}", row.date, rejected->reason);
        explanation.rejected.push_back(std::move(*rejected));
        return;
    }
    explanation.tuned_by = fmt::format("{}: {}", row.date, row.command);
    const TileChoice by_model = with_general_tile(model_choice(work, device), work, device);
    explanation.model_choice = plan_of(tile_of(by_model, work.geometry), work, device);
}

/// A tile that differs in more than stages. Looks among the shipped tiles if the chosen one ships.
void find_next_best(const hopper::Kernel& shapeless, Explanation& explanation) {
    const std::vector<hopper::Kernel> shipped = shipped_tiles(shapeless);
    const auto ships = [&](const Plan& plan) {
        const hopper::Kernel tile = device_tile(planned_tile(plan), shapeless);
        const bool runs = plan.variant != "general" || serves_general_calls(tile);
        return runs && std::ranges::count(shipped, tile) > 0;
    };
    const bool any_kernel = !ships(*explanation.chosen);
    const PlannedTile chosen = planned_tile(*explanation.chosen);
    for (const Plan& plan : explanation.legal) {
        PlannedTile tile = planned_tile(plan);
        tile.stages = chosen.stages;
        if (tile == chosen || (!any_kernel && !ships(plan))) continue;
        explanation.next_best = plan;
        return;
    }
}

/// Packed weights give the same bits as weights that are packed at each call, and as other weights with wide rows.
/// Neither of these are expanded, so k is split as for them.
Workload with_slices(Workload work, const DeviceDescription& device, const std::vector<TunedRow>& rows) {
    if (work.if_not_expanded == nullptr || work.empty()) return work;
    work.k_slices = choose(*work.if_not_expanded, device, rows).cluster.k_slices;
    return work;
}

}  // namespace

const PricedTile& best_of(const std::vector<PricedTile>& tiles, bool last_stores_count) {
    const auto time = [](const PricedTile& each) {
        return std::tuple(each.cost.seconds, each.tile.cluster.k_slices, each.tile.cluster.size(), each.tile.stages);
    };
    const PricedTile& fastest = *std::ranges::min_element(tiles, {}, time);
    const bool by_memory = fastest.cost.memory >= fastest.cost.compute;
    if (by_memory && !last_stores_count) return fastest;
    const double limit = fastest.cost.seconds * (by_memory ? no_difference_of_stores : no_difference);
    const auto size = [&](const PricedTile& each) {
        const bool slower = each.cost.seconds > limit;
        return std::tuple(slower, by_memory ? elements(each.tile) : each.cost.l2_bytes, time(each));
    };
    return *std::ranges::min_element(tiles, {}, size);
}

Plan plan_of(const hopper::Kernel& wanted, const Workload& work, const DeviceDescription& device) {
    const KernelPlan kernel = kernel_plan(work.geometry, wanted);
    const hopper::Design& tile = kernel.tile;
    const TileDistribution over = tile_distribution(tile, work, device);
    Plan plan;
    // Its kernel for D of f32 may have other stages.
    plan.tile = name(planned_tile(tile.cluster == wanted.cluster ? wanted : general_kernel(wanted)));
    plan.variant = variant_name(tile);
    plan.path = kernel_path(kernel);
    plan.has_wide_rows = tile.wide_rows;
    plan.tiles = static_cast<std::int64_t>(std::ceil(std::min(over.tiles, 0x1p62)));
    plan.waves = over.waves();
    plan.grid = over.grid();
    plan.threads = tile.threads;
    plan.shared_bytes = tile.shared_bytes;
    if (plan.grid > 0) plan.cost = with_workspace(cost(tile, work, device), work, device);
    return plan;
}

TileChoice choose_tiles(const Workload& given, const DeviceDescription& device, const std::vector<TunedRow>& rows) {
    if (given.empty()) return {shapeless_kernel(given), shapeless_kernel(given)};
    const Workload work = with_slices(given, device, rows);
    if (const TunedRow* row = tuned_row(rows, device.name, work)) {
        if (!why_illegal(row->tile, work, device)) {
            return with_general_tile(device_tile(row->tile, shapeless_kernel(work)), work, device);
        }
    }
    return with_general_tile(model_choice(work, device), work, device);
}

hopper::Kernel choose(const Workload& work, const DeviceDescription& device, const std::vector<TunedRow>& rows) {
    return tile_of(choose_tiles(work, device, rows), work.geometry);
}

Explanation explain(const Problem& problem, const DeviceDescription& device, const std::vector<TunedRow>& rows) {
    const GpuCall call = gpu_call(problem);
    const Workload work = with_slices(workload(problem, call), device, rows);
    Explanation explanation;
    explanation.device = device.name;
    explanation.assumed = device.assumed;
    explanation.unavailable = unsupported_on_hopper(work.asked);
    if (!explanation.unavailable.empty()) return explanation;
    explanation.first = workspace_steps(call);
    explanation.chosen = plan_of(choose(work, device, rows), work, device);
    if (work.empty()) return explanation;
    judge_candidates(work, device, explanation);
    if (const TunedRow* row = tuned_row(rows, device.name, work)) explain_tuned_row(*row, work, device, explanation);
    find_next_best(shapeless_kernel(work), explanation);
    return explanation;
}

TileChoice chosen_tiles(const Problem& problem, const GpuCall& call, const DeviceDescription& device) {
    const Workload work = workload(problem, call);
    require_support(work);
    return choose_tiles(work, device, tuned_rows());
}

hopper::Kernel chosen_tile(const Problem& problem, const GpuCall& call, const DeviceDescription& device) {
    return tile_of(chosen_tiles(problem, call, device), call.product);
}

std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device) {
    Explanation explanation = explain(problem, device);
    if (!explanation.chosen) throw Error(std::move(explanation.unavailable));
    std::vector<Plan> plans{*explanation.chosen};
    std::ranges::copy_if(explanation.legal, std::back_inserter(plans),
                         [&](const Plan& plan) { return plan.tile != explanation.chosen->tile; });
    return plans;
}

hopper::Kernel runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device) {
    const Workload work = workload(problem);
    require_support(work);
    if (const auto rejected = why_illegal(tile, work, device)) {
        throw Error(fmt::format("tile '{}': {}: {}", rejected->tile, rejected->rule, rejected->reason));
    }
    return device_tile(tile, shapeless_kernel(work));
}

std::vector<std::int64_t> k_splits(const hopper::Kernel& kernel, std::int64_t k) {
    const hopper::Design tile = hopper::Design(kernel);
    const int k_blocks = static_cast<int>(ceil_div<std::int64_t>(k, tile.stage_k));
    std::vector<std::int64_t> result;
    for (int slice = 1; slice < tile.cluster.k_slices; ++slice) {
        result.push_back(std::int64_t{tile.stage_k} * hopper::k_slice_begin(tile, k_blocks, slice));
    }
    return result;
}

std::vector<std::int64_t> planned_k_splits(const Problem& problem, const DeviceDescription& device) {
    const Workload work = workload(problem);
    // Weights have the bits of packed ones, also if their codes are in an order that no kernel packs.
    if (work.empty() || !without_kernels(work.asked).empty()) return {};
    return k_splits(choose(work, device, tuned_rows()), work.k);
}

}  // namespace tilewright::planner

namespace tilewright {

Explanation explain(const Problem& problem, const DeviceDescription& device) {
    return planner::explain(problem, device, planner::tuned_rows());
}

Plan plan(const Problem& problem, const DeviceDescription& device) {
    const planner::Workload work = planner::workload(problem);
    planner::require_support(work);
    return planner::plan_of(planner::choose(work, device, planner::tuned_rows()), work, device);
}

}  // namespace tilewright
