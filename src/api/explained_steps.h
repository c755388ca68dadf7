// Predicts the times of a layer's steps on a GPU. The products' are the planner's. The other kernels stream their
// operands once, so that their time is a launch and their bytes.
#pragma once

#include <tilewright/moe.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/moe_steps.h"

namespace tilewright {

/// The time of a kernel's launch in a chain: measured on an H200.
inline constexpr double launch_seconds = 2.4e-6;

std::int64_t bytes_of(const Tensor& tensor);
std::int64_t bytes_of(const Operand& operand);

/// Which part of the tokens and rows that have room is expected to exist.
struct ExpectedShares {
    double tokens = 1;  // those that choose an expert here
    double rows = 1;
    std::int64_t link_bytes = 0;  // of the tokens, from other ranks
};

class ExplainedSteps {
public:
    explicit ExplainedSteps(const DeviceDescription& device) : device_(device) {}

    void add(MoeStep step) { list_.push_back(std::move(step)); }
    /// A step that takes `start` and the time of its bytes. `exposed`: as much of `start` waits for other ranks.
    void add_copy(MoeStep step, double start = launch_seconds, double exposed = 0);
    /// All steps of a layer but the sum.
    void add_up_to_combine(const Moe& layer, const MoeSteps& made, const ExpectedShares& expected = {});

    /// The time of bytes through HBM and of others from other ranks, at the same time.
    double copy_seconds(std::int64_t bytes, std::int64_t link_bytes) const;
    std::vector<MoeStep> take() { return std::move(list_); }

private:
    void add_product(const std::string& name, const Product& product);
    void add_quantizer(const StagedOperand& staged, bool round_up);
    void add_rows(const Moe& layer, const MoeSteps& made, const ExpectedShares& expected);

    const DeviceDescription& device_;
    std::vector<MoeStep> list_;
};

}  // namespace tilewright
