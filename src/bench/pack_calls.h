// Calls that time the kernels of two packs against each other. Some reach every kernel for operands of layout nt that
// ships; others need general kernels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/gpu_bench.h"
#include "check/general_calls.h"
#include "hopper/description/kernel.h"

namespace tilewright::bench {

/// A tile for a problem, and the kernel that then runs: which of a tile's kernels it is depends on the problem.
struct KernelCall {
    planner::PlannedTile tile{};
    hopper::Kernel kernel{};
};

/// A problem and the kernels that it times.
struct PackProblem {
    BenchShape shape{};
    Settings settings{};
    float alpha = 1;
    std::string kind{};  // "m <= 128", ..., "groups"
    std::vector<KernelCall> calls{};
};

/// The operands' shapes and strides, all pointers null; the problem that is timed has the same.
Problem shapes_of(const PackProblem& problem);

/// Whether calls of layout nt reach a kernel without preparation: none with packed or expanded weights do.
bool is_called(const hopper::Kernel& kernel);

/// Kernels of planner::shipped_kernels() with typical problems that run them, at most `most` per kernel: those for
/// which the planner ranks its tile highest. Asks only the planner.
std::vector<PackProblem> pack_problems(const DeviceDescription& device, std::size_t most);

/// The call, without kernels. Nothing if it needs a bias or odd rows of D, which operands of benchmarks do not have.
std::optional<PackProblem> pack_problem(const check::GeneralCall& call);

/// A kernel's time in one pack over that in the other, above 1 where the second is slower.
struct KernelRatio {
    std::string kernel{};
    std::string kind{};
    double ratio = 1;
};

struct PackVerdict {
    std::string text{};  // the geometric mean of each kind and its slowest kernel
    bool slower = false;
};

/// Slower: a kernel by more than `kernel_limit` in the mean of its problems, or a kind by more than `kind_limit`.
PackVerdict judge_ratios(const std::vector<KernelRatio>& ratios, double kernel_limit, double kind_limit);

}  // namespace tilewright::bench
