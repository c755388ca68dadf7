#include "emulator/prepared_case.h"

#include "cpu/exact/exact.h"
#include "emulator/other_kernels.h"
#include "launch/preparation.h"
#include "plan/choose.h"
#include "plan/variant.h"
#include "problem/expansion.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

namespace tilewright::tests {
namespace {

/// Memory of a workspace between bytes that no kernel may write.
class GuardedWorkspace {
public:
    explicit GuardedWorkspace(std::int64_t bytes)
        : bytes_(bytes), memory_(static_cast<std::size_t>(bytes) + 3 * guard) {
        std::ranges::fill(memory_, check::poison);
        void* place = memory_.data() + guard;
        std::size_t space = memory_.size() - guard;
        data_ = static_cast<std::byte*>(std::align(guard, static_cast<std::size_t>(bytes), place, space));
    }
    std::byte* data() const { return data_; }
    bool is_intact_outside() const {
        const auto is_poison = [](std::byte byte) { return byte == check::poison; };
        return std::all_of(memory_.data(), static_cast<const std::byte*>(data_), is_poison) &&
               std::all_of(static_cast<const std::byte*>(data_) + bytes_, memory_.data() + memory_.size(), is_poison);
    }

private:
    static constexpr std::size_t guard = 256;
    std::int64_t bytes_;
    std::vector<std::byte> memory_;
    std::byte* data_ = nullptr;
};

bool is_for_gpu(Problem problem) {
    for (Tensor* tensor :
         {&problem.a.values, &problem.a.scales, &problem.a.tensor_scale, &problem.b.values, &problem.b.scales,
          &problem.b.tensor_scale, &problem.c, &problem.bias, &problem.d, &problem.groups.sizes}) {
        tensor->device = {.kind = DeviceId::Kind::cuda};
    }
    problem.b.packed.device = {.kind = DeviceId::Kind::cuda};
    return validate(problem).empty();
}

}  // namespace

std::string prepared_difference(const EmulatedKernel& kernel, check::Case& test, const Conditions& run, bool packs) {
    cpu::run_exact(test.geometry(), {.threads = 1, .k_splits = planner::k_splits(kernel.tile, test.spec().k)});
    const std::vector<std::byte> expected = test.output();
    test.reset_output();
    Problem problem = test.problem();
    OwnedPackedWeights weights;
    if (packs) {
        weights = pack_weights(problem.b, kernel.tile.order.step == StepKind::bf16 ? PackedFor::bf16 : PackedFor::fp8);
        problem.b = {.packed = weights};
    }
    if (!is_for_gpu(problem)) return "no call for a GPU";
    const Geometry g = geometry(problem);
    const bool expands = g.b.packed.given && !kernel.tile.b.is_packed();
    if (expands && (g.b.packed.windows != 0 || g.b.packed.wide_row >= 0)) {
        return "rows are wide: nothing can be expanded";
    }
    // No expansion runs without k-blocks. The library must not ask for one.
    if (expands && g.k == 0) return expands_weights(g) ? "weights without k are expanded" : "";
    const WorkspacePlan before = workspace_plan(g, expands);
    if (before.empty()) return "nothing is prepared";
    const GuardedWorkspace workspace(before.bytes);
    try {
        run_on_emulator(launch::lower_workspace(before, workspace.data()));
        const Geometry product = after_workspace(g, before, workspace.data());
        if (!planner::can_run(product, kernel.tile)) return "another variant serves";
        const hopper::KernelReport report = run_on_emulator(kernel, product, run);
        if ((report.producer.word | report.consumer.word | report.mixed.word) != 0) return "a report to the host";
    } catch (const emulator::Error& error) {
        return error.what();
    }
    if (!workspace.is_intact_outside()) return "memory outside of the workspace was written";
    return test.output() == expected ? test.damage() : "wrong result";
}

}  // namespace tilewright::tests
