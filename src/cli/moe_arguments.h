// The sizes of a layer of experts on the command line, and the layer that they describe.
#pragma once

#include <tilewright/moe.h>

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

void add_moe_size_options(CLI::App& command, MoeArguments& arguments);
void add_moe_kind_options(CLI::App& command, MoeArguments& arguments);

/// A layer of bf16 tokens with routing, without memory; on a GPU. FP4 weights are packed unless `unpacked`.
Moe layer_of(const MoeArguments& arguments, std::int64_t tokens);

/// "128 experts, top 8, hidden 2048, inner 768"
std::string sizes_text(const MoeArguments& arguments);

}  // namespace tilewright::cli
