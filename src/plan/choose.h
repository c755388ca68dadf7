// Candidates, judged: the plan with the smallest cost, everything that was not chosen, and the words of `explain`. Also
// what the runtime and tools ask for a problem: its tiles, and where the CPU's bit-exact arithmetic splits k.
#pragma once

#include <tilewright/plan.h>

#include <cstdint>
#include <vector>

#include "hopper/description/kernel.h"
#include "plan/planned_tile.h"
#include "plan/tuned.h"
#include "plan/variant.h"
#include "plan/workload.h"
#include "problem/gpu_call.h"

namespace tilewright::planner {

/// `explain` with other tuned rows than the shipped ones.
Explanation explain(const Problem& problem, const DeviceDescription& device, const std::vector<TunedRow>& rows);

/// The tiles of this kind of calls: the tuned tile, or the model's choice. Calls that need a general kernel take this
/// tile too if its general kernel ships, else the best of those with one. For work without findings of
/// `unsupported_on_hopper`.
TileChoice choose_tiles(const Workload& work, const DeviceDescription& device, const std::vector<TunedRow>& rows);

/// The tile that runs, without its variant: that of `choose_tiles` for the work's geometry.
hopper::Kernel choose(const Workload& work, const DeviceDescription& device, const std::vector<TunedRow>& rows);

struct PricedTile {
    hopper::Kernel tile;
    Cost cost;
};

/// Seconds of plans within this factor count as the same. On shapes that the model was not fitted to, anything from
/// 1.005 to 1.02 chooses better than 1 (docs/experiments/014-fewest-bytes.md).
inline constexpr double no_difference = 1.01;

/// The same where memory is the bound and `last_stores_count` (cost.h): from 1.015 to 1.03 the choices are alike
/// (docs/experiments/014-fewest-bytes.md).
inline constexpr double no_difference_of_stores = 1.02;

/// The cheapest tile, or one that is as good:
/// - If compute is the bound, tiles within `no_difference` count as equal. The one with the fewest L2 bytes is taken,
///   because the model does not know their energy.
/// - If memory is the bound and `last_stores_count`, the smallest tile within `no_difference_of_stores` is taken.
/// - Exact ties: no split, no cluster, fewer stages.
const PricedTile& best_of(const std::vector<PricedTile>& tiles, bool last_stores_count);

/// The plan that runs `tile` in the variant for this call, whether it is legal or not.
Plan plan_of(const hopper::Kernel& tile, const Workload& work, const DeviceDescription& device);

/// The tiles of all calls that differ from this one only in addresses and alpha, if the caller names none. Throws Error
/// if no tile can run.
TileChoice chosen_tiles(const Problem& problem, const GpuCall& call, const DeviceDescription& device);

/// The one of them that this call takes.
hopper::Kernel chosen_tile(const Problem& problem, const GpuCall& call, const DeviceDescription& device);

/// The planner's choice first, then every other legal candidate, fastest first by its prediction; only tiles that
/// kernels can be compiled for. Throws Error where there is none.
std::vector<Plan> runnable_plans(const Problem& problem, const DeviceDescription& device);

/// The template parameters of the kernel for `tile`, without its variant. Throws Error with the reason if the tile is
/// illegal for the problem.
hopper::Kernel runnable_tile(const PlannedTile& tile, const Problem& problem, const DeviceDescription& device);

/// Where a tile splits k: ascending multiples of the tile's k; none if it does not. The CPU's bit-exact arithmetic
/// follows: cpu::ExactOptions::k_splits, check::judge.
std::vector<std::int64_t> k_splits(const hopper::Kernel& tile, std::int64_t k);

/// The splits of the tile that this device runs if the caller names none; none where no kernel supports the problem.
std::vector<std::int64_t> planned_k_splits(const Problem& problem, const DeviceDescription& device);

/// How operands, scales and D travel through a kernel, in words.
KernelPath kernel_path(const KernelPlan& kernel);

/// The operands that a call writes into its workspace before the product, with the reasons, in the order of the
/// launches.
std::vector<WorkspaceStep> workspace_steps(const GpuCall& call);

}  // namespace tilewright::planner
