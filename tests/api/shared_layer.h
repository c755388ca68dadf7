// A layer that ranks of this process share: the tokens and the experts of one layer, divided among threads.
#pragma once

#include <tilewright/expert_group.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "check/moe_case.h"

namespace tilewright::tests {

/// Runs a function by each rank in a separate thread. Returns the message that each threw, empty if none.
std::vector<std::string> by_ranks(int ranks, const std::function<void(std::unique_ptr<Ranks>)>& work);

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
    std::string run(int times = 1);

private:
    struct Weights {
        Operand up, down;
        Tensor up_bias, down_bias;
    };
    Tensor taken(const Tensor& tensor, const std::vector<std::int64_t>& experts);
    Operand taken(const Operand& operand, const std::vector<std::int64_t>& experts);
    std::vector<std::int64_t> experts_of(int rank) const;

    check::MoeCase& whole_;
    ExpertGroupOptions options_;
    std::vector<std::int64_t> tokens_;
    std::vector<Weights> weights_;
    std::vector<std::unique_ptr<std::byte[]>> memory_;
};

/// The options of a group for a layer, with equal ranges of experts.
ExpertGroupOptions options_of(const check::MoeCase& whole);

}  // namespace tilewright::tests
