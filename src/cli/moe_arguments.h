// The sizes of a layer of experts on the command line, the layer that they describe, and its ranks.
#pragma once

#include <tilewright/expert_group.h>

#include <CLI/CLI.hpp>
#include <string>

namespace tilewright::cli {

struct MoeArguments {
    std::int64_t experts = 0;
    std::int64_t top = 0;
    std::int64_t hidden = 0;
    std::int64_t inner = 0;
    int shared = 0;
    std::string recipe = "1x128:128x128";
    std::string unit = "swiglu";
    std::string weights_at = "combine";
    bool with_bias = false;
    bool unpacked = false;
    bool invariant = false;
};

/// With ranks, the tokens are those of each rank and the experts those of all. Each rank has all shared experts.
struct RankArguments {
    int ranks = 0;  // 0: one GPU
    std::string exchange = "addresses";
    std::string combine;  // empty: the group chooses
    std::string sums = "bf16";
};

void add_moe_size_options(CLI::App& command, MoeArguments& arguments);
void add_moe_kind_options(CLI::App& command, MoeArguments& arguments);
/// `ranks`: describes --ranks.
void add_moe_rank_options(CLI::App& command, RankArguments& arguments, int most, const std::string& ranks);

/// A layer of bf16 tokens with routing, without memory; on a GPU. FP4 weights are packed unless `unpacked`.
Moe layer_of(const MoeArguments& arguments, std::int64_t tokens);

/// The layer of one of the ranks. Throws UsageError for experts that cannot be divided.
MoeArguments of_each_rank(const MoeArguments& arguments, int ranks);
ExpertGroupOptions group_of(const MoeArguments& arguments, const RankArguments& ranks, std::int64_t tokens);

/// "128 experts, top 8, hidden 2048, inner 768"
std::string sizes_text(const MoeArguments& arguments);

}  // namespace tilewright::cli
