// The steps of a layer of experts, laid out in the memory of the call: what runs after what, and where each result is.
// Used to count bytes, to run and to explain, so that all three agree.
#pragma once

#include <cstdint>
#include <optional>

#include "api/call_memory.h"
#include "api/product.h"
#include "moe/steps.h"

namespace tilewright {

/// Numbers in f32 that a further step quantizes, where no kernel writes the recipe's values directly.
struct StagedOperand {
    Tensor numbers{};
    Tensor ends{};  // of the rows that exist; the others are set to zeros before they are quantized. May be not given
    Operand out{};
};

struct MoeSteps {
    std::optional<moe::RouteStep> route{};
    /// x is quantized by token first, where the permuting kernel cannot.
    std::optional<Operand> token_codes{};
    std::optional<moe::PermuteStep> permute{};
    std::optional<StagedOperand> staged_rows{};
    Product up{};
    moe::ActivateStep activate{};
    std::optional<StagedOperand> staged_h{};
    Product down{};
    std::optional<moe::CombineStep> combine{};
};

/// The parts of a layer that lie in the memory of other ranks.
struct RankedRows {
    moe::RankMemory tokens{};  // of x or of the quantized tokens
    std::int64_t first = 0;    // the next three: as in RouteStep
    moe::RankMemory owners{};
    Tensor owner_rows{};
    Tensor y{};        // the second product's result; not given: in the arena
    Tensor sources{};  // as in Routed; may be not given
};

/// For a layer without findings of `check`.
MoeSteps steps(const Moe& layer, Arena& arena, const RankedRows& ranked = {});

/// Whether kernels write values of this recipe with their scales. Others need numbers of the whole tensor, or are e2m1.
bool is_written_directly(const OperandRecipe& recipe);

/// The part of a layer for tokens `begin` to `end`.
Moe tokens_of(const Moe& layer, std::int64_t begin, std::int64_t end);

/// An address that nothing has, for questions about steps whose memory does not exist yet.
inline void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{1} << 62); }

/// The layer with all tensors said to be on a GPU: for questions about shapes.
Moe as_on_gpu(Moe layer);

/// Sizes that a layer's tensors agree on.
struct MoeSizes {
    std::int64_t experts = 0;
    std::int64_t hidden = 0;
    std::int64_t inner = 0;
    std::int64_t tokens = 0;   // of x; masked: rows per expert
    std::int64_t choices = 0;  // per token, shared experts included; 0: x is rows
    bool masked = false;

    bool has_routing() const { return choices > 0; }
    std::int64_t rows() const { return has_routing() ? tokens * choices : tokens; }
    /// The shape of a matrix of rows.
    Dims shape(std::int64_t columns) const { return masked ? Dims{experts, tokens, columns} : Dims{rows(), columns}; }
};
MoeSizes sizes_of(const Moe& layer);

/// The first two dimensions that packed or ordinary weights multiply: [E, n, k].
Dims weight_shape(const Operand& weights);

}  // namespace tilewright
