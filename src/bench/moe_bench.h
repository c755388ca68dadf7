// A layer of experts on a GPU, timed: the whole layer and each of its two products, in the same run.
#pragma once

#include <tilewright/moe.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu_bench.h"
#include "measure/device.h"
#include "measure/timing.h"

namespace tilewright::bench {

/// The layer of a model: all of its experts, or those of one GPU.
struct MoeModel {
    std::string name{};
    std::int64_t experts = 0;
    std::int64_t top = 0;
    std::int64_t hidden = 0;
    std::int64_t inner = 0;
    std::string recipe{};
};
const std::vector<MoeModel>& moe_models();

/// [tokens, top]: random experts, each at most once per token. Skewed: the first is 30 times as likely as the others,
/// and the last half has no token.
std::vector<std::int32_t> random_experts(std::int64_t tokens, std::int64_t top, std::int64_t experts, bool skewed);

/// A layer with random numbers in memory of the GPU.
class MoeOperands {
public:
    /// `shapes`: the layer without memory. Packed weights in it are packed on the GPU.
    MoeOperands(const Moe& shapes, const Operand& up, const Operand& down, const std::vector<std::int32_t>& experts);

    const Moe& layer() const { return layer_; }
    Workspace workspace() const { return {workspace_.data(), static_cast<std::int64_t>(workspace_.size())}; }

private:
    void place(Tensor& tensor);
    void place(Operand& operand, const Operand& unpacked);

    Moe layer_;
    std::vector<measure::Buffer> buffers_;
    measure::Buffer workspace_;
};

struct MoeTimes {
    measure::Measurement layer{};
    measure::Measurement up{};
    measure::Measurement down{};
    double predicted = 0;  // seconds
    std::int64_t experts_hit = 0;
    double bytes = 0;  // through HBM at least: weights of the experts that have tokens, activations once per step
};

MoeTimes time_moe(GpuBench& gpu, const MoeOperands& operands, const std::vector<std::int32_t>& experts, int repeats);

/// The line of a record, without date, commit and command.
nlohmann::ordered_json moe_record(const Moe& layer, const MoeTimes& times);

}  // namespace tilewright::bench
