// The layout of the memory of a rank in a group. It is the same on all ranks, so that an address here plus a shift is
// the address there.
#pragma once

#include <tilewright/expert_group.h>

#include <cstdint>

#include "api/call_memory.h"
#include "formats/rank_words.h"

namespace tilewright {

/// Sizes that follow from options without findings.
struct GroupSizes {
    GroupSizes(const ExpertGroupOptions& options, int ranks, Exchange exchange);

    std::int64_t ranks = 1;
    std::int64_t room = 0;      // tokens of a rank that are exchanged at a time
    std::int64_t rounds = 1;    // of a call
    std::int64_t choices = 0;   // of a token, with those of shared experts
    std::int64_t per_rank = 0;  // experts, with shared ones
    std::int64_t hidden = 0;
    Exchange exchange = Exchange::collectives;
    RankSums combine = RankSums::sums;
    Format sums = Format::bf16;
    /// How tokens travel: quantized, or as they are.
    OperandRecipe tokens{};

    std::int64_t all_tokens() const { return ranks * room; }
    std::int64_t all_rows() const { return ranks * room * choices; }
    /// The format of a result that travels.
    Format result() const { return combine == RankSums::rows ? Format::bf16 : sums; }
    std::int64_t result_bytes() const { return hidden * bits(result()) / 8; }
};

/// With shared ones.
std::int64_t experts_of_a_rank(const ExpertGroupOptions& options, int ranks);

/// Whether tokens are quantized ahead of their journey.
bool travels_quantized(const ExpertGroupOptions& options);

struct RankLayout {
    /// `memory`: of this rank, or null to count bytes.
    RankLayout(const GroupSizes& sizes, void* memory, const DeviceId& device);

    formats::RankCounters* counters = nullptr;
    // The announcement of a rank. With addresses, all ranks write their choices here, [ranks * room, choices]. With
    // collectives, a rank announces one piece, with its own choices, [room, choices].
    formats::RankWord* said = nullptr;
    Tensor ids{};      // int32
    Tensor weights{};  // f32
    Operand tokens{};  // [room, hidden]
    // Results. With addresses, other ranks write `rows` and `sums`, and read `y`. With collectives, `sent` comes to
    // `received`.
    Tensor rows{};      // int32 [room, choices]
    Tensor y{};         // bf16 [all rows, hidden]
    Tensor sums{};      // bf16 or f32 [ranks * room, hidden]
    Tensor sent{};      // sums, or bf16 [all rows, hidden]
    Tensor received{};  // as sent

    // In bytes from the beginning.
    std::int64_t announced_at = 0;
    std::int64_t announced_bytes = 0;
    std::int64_t gathered_at = 0;
    std::int64_t sent_at = 0;
    std::int64_t received_at = 0;
    std::int64_t bytes = 0;
};

/// Another number of rows at the same address.
Tensor with_rows(Tensor tensor, std::int64_t rows);
Operand with_rows(Operand operand, std::int64_t rows);

/// A rank's experts over the tokens of all ranks, which have the address of this rank's. `ids` and `weights`: of all
/// tokens, [ranks * room, choices]. The result has no memory.
Moe local_layer(const Moe& layer, const GroupSizes& sizes, const RankLayout& layout, const Tensor& ids,
                const Tensor& weights);

}  // namespace tilewright
