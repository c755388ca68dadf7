// The steps between ranks of a layer that is spread over them (tilewright/expert_group.h). As in steps.h, each is
// described once: the functions here run it on the CPU, and launch/moe.h lowers it to a kernel.
#pragma once

#include <cstdint>

#include "formats/rank_words.h"
#include "moe/steps.h"

namespace tilewright::moe {

/// The choices of a rank's tokens, for all ranks to read.
struct AnnounceStep {
    Routing routing{};  // of T tokens; global numbers, no map. Not given: no tokens
    /// int32 [experts, copies]: the places of each expert, -1 after the last copy. Not given: equal ranges of experts.
    Tensor places{};
    int rank = 0;
    std::int64_t numbers = 0;  // of experts without shared ones
    int experts = 0;           // places of a rank, shared experts included
    int shared = 0;            // of these
    /// int32 and f32 [room, k + shared]. Tokens from T on have places of -1.
    Tensor ids{};
    Tensor weights{};
    RankMemory to{};  // writes them into the memory of all ranks; not given: of this one
    Tensor rows{};    // int32, as ids: set to -1, for `route` of other ranks to write. May be not given
    formats::CallState state = formats::CallState::right;
    formats::RankCounters* counters = nullptr;  // of this rank
    formats::RankWord* said = nullptr;          // for the collective; null: a barrier carries the word
};

/// The data that a rank reads of all ranks when they have met.
enum class Collects : std::uint8_t {
    nothing,
    choices,    // local experts and weights of the tokens of all ranks, from what a collective has brought
    rows,       // where the rows of this rank's choices are
    sent_rows,  // the same, if each rank has sent them to slot (token, choice)
    sums,       // which ranks have a sum of each token
};

/// A barrier, after which a rank collects what it needs.
struct MeetStep {
    RankMemory memory{};
    /// The words of all ranks, if a collective has been the barrier; null: this step is the barrier.
    const formats::RankWord* said = nullptr;
    formats::RankCounters* counters = nullptr;  // of this rank
    formats::CallState state = formats::CallState::right;
    int phase = 0;                          // of a call: 0 or 1
    std::int64_t nanoseconds = 0;           // the longest wait
    formats::RankReport* report = nullptr;  // in memory of the host

    Collects collects = Collects::nothing;
    int experts = 0;  // places of a rank
    Tensor ids{};     // of this rank, as announced; choices: in what each rank has announced
    Tensor weights{};
    /// choices: int32 and f32 [ranks * room, choices]. rows, sent_rows: int32 [T, choices], rank * rows of a rank +
    /// row. sums: int32 [T, ranks], rank * room + t. -1: none.
    Tensor out{};
    Tensor out_weights{};
    Tensor rows{};               // rows: int32 [room, choices], as `route` of all ranks wrote them here
    std::int64_t row_count = 0;  // rows: of each rank
};

void run_on_cpu(const AnnounceStep& step);
void run_on_cpu(const MeetStep& step);

}  // namespace tilewright::moe
