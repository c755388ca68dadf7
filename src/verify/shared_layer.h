// A layer that ranks of this process share: the tokens and the experts of one layer, divided among threads. They run on
// the CPU, or on one GPU with a stream each.
#pragma once

#include <tilewright/expert_group.h>
#include <tilewright/plan.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "check/moe_case.h"

namespace tilewright::verify {

/// Runs a function by each rank in a separate thread. Returns the message that each threw, empty if none.
std::vector<std::string> by_ranks(int ranks, const std::function<void(std::unique_ptr<Ranks>)>& work,
                                  const DeviceId& device = {});

/// The first token of each rank, and the number of all: some ranks have none, and one may have all.
std::vector<std::int64_t> random_split(std::int64_t tokens, int ranks, std::uint64_t seed);
std::vector<std::int64_t> even_split(std::int64_t tokens, int ranks);

struct RankedRun {
    int times = 1;
    bool on_gpu = false;
    int threads = 1;                                 // of each rank on the CPU
    const DeviceDescription* planned_for = nullptr;  // whose bits; null: the GPU's, or default_device()
};

struct RankedResult {
    std::string errors{};           // of all ranks, a line each
    std::vector<double> seconds{};  // of each call, by the slowest rank
};

class SharedLayer {
public:
    /// `tokens`: the first token of each rank and the number of all. Each rank has the experts that the group's options
    /// say.
    SharedLayer(check::MoeCase& whole, const ExpertGroupOptions& options, std::vector<std::int64_t> tokens);

    int ranks() const { return static_cast<int>(tokens_.size()) - 1; }
    const ExpertGroupOptions& options() const { return options_; }
    /// The layer of a rank, with its tokens, its experts and its rows of the result.
    Moe part(int rank) const;
    /// Runs the layer by ranks, `times` times. Returns the errors of all.
    std::string run(int times = 1) { return run(RankedRun{.times = times}).errors; }
    /// The result is in the memory of the whole layer.
    RankedResult run(const RankedRun& how);

private:
    struct Weights {
        Operand up, down;
        Tensor up_bias, down_bias;
    };
    Tensor taken(const Tensor& tensor, const std::vector<std::int64_t>& experts);
    Operand taken(const Operand& operand, const std::vector<std::int64_t>& experts);
    std::vector<std::int64_t> experts_of(int rank) const;
    /// `only_loads`: the kernels of a GPU; results stay there.
    RankedResult run_calls(const RankedRun& how, bool only_loads) const;
    std::string load_kernels(const RankedRun& how) const;

    check::MoeCase& whole_;
    ExpertGroupOptions options_;
    std::vector<std::int64_t> tokens_;
    std::vector<Weights> weights_;
    std::vector<std::unique_ptr<std::byte[]>> memory_;
    bool kernels_are_loaded_ = false;
};

/// The options of a group for a layer, with equal ranges of experts.
ExpertGroupOptions options_of(const check::MoeCase& whole);

/// Choices of shared experts by number become none: in a group shared experts have no number.
void keep_to_routed_experts(check::MoeCase& whole);

}  // namespace tilewright::verify
