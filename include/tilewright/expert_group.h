// A layer of experts that is spread over ranks: each rank has its tokens and its experts.
//
// A call over R ranks is the call of one GPU whose tokens and rows lie at R addresses:
//
//     announce   each rank writes its tokens, quantized once, with the numbers and weights of their choices
//
//     exchange   a barrier, after which kernels read the other ranks' memory; or an all-gather
//
//     layer      the products of this rank's experts, for the tokens of all ranks that chose them
//
//     combine    each rank sums the results of its tokens
//
// Sizes are those of the group, not of a call: tokens that a rank does not have choose no expert. So no size crosses to
// the host, and a CUDA graph of a call replays with other routing and other numbers of tokens.
#pragma once

#include <tilewright/moe.h>
#include <tilewright/ranks.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace tilewright {

/// How tokens and results get from rank to rank.
enum class Exchange : std::uint8_t {
    automatic,    // addresses if there are any
    collectives,  // all_gather and all_to_all of equal splits
    addresses,    // kernels read and write the memory of other ranks
};
inline constexpr std::array all_exchanges{Exchange::automatic, Exchange::collectives, Exchange::addresses};
std::string_view name(Exchange exchange);

/// The results that a rank sends for a token of another rank.
///
/// - rows: the bf16 result of each choice. The owner sums them in the order of one GPU, so that the result has the bits
///   of one GPU if the products are invariant.
/// - sums: the sum of its experts' results in f32, which is sent in the format `sums`. The owner adds the sums of the
///   ranks that have an expert of the token, in ascending order, and rounds once. Fewer bytes; repeatable.
enum class RankSums : std::uint8_t {
    automatic,  // rows for invariant groups, and up to `rows_up_to` tokens
    rows,
    sums,
};
inline constexpr std::array all_rank_sums{RankSums::automatic, RankSums::rows, RankSums::sums};
std::string_view name(RankSums sums);
inline constexpr std::int64_t rows_up_to = 64;

/// All ranks of a group agree on these options.
struct ExpertGroupOptions {
    std::int64_t max_tokens = 0;  // the most tokens of a rank in a call
    std::int64_t hidden = 0;
    std::int64_t experts = 0;  // global numbers, without shared experts
    int choices = 0;           // of a token
    /// Experts that each rank has and that take all of its tokens: the last of its weights.
    int shared = 0;
    OperandRecipe activations{Format::e4m3, Granularity::block_1x128};
    bool round_up = false;
    /// The format of x. Tokens travel in it where they cannot be quantized ahead of their journey: weights at the
    /// input, and scales of a whole tensor.
    Format x = Format::bf16;
    WeightsAt weights_at = WeightsAt::combine;
    Exchange exchange = Exchange::automatic;
    RankSums combine = RankSums::automatic;
    Format sums = Format::bf16;  // of the sums that ranks send: bf16 or f32
    Reproducibility reproducibility = Reproducibility::repeatable;
    /// Tokens of a rank that are exchanged at a time. It bounds the memory, and `max_tokens` is not limited by it.
    std::int64_t chunk = 8192;
    /// The experts of each rank, shared ones included. 0: experts / ranks + shared.
    std::int64_t per_rank = 0;
    /// For each expert the places of its copies. Place i of rank r has the number r * per_rank + i. A token uses copy
    /// (its index on its rank) % (copies). Empty: equal ranges of experts, which are a multiple of the ranks.
    std::vector<std::vector<int>> places{};
    /// How long a rank waits for another one in a barrier.
    double seconds = 20;
};

/// Bytes of each rank's memory that a group needs. Throws Error with every finding about the options.
std::int64_t memory_bytes(const ExpertGroupOptions& options, int ranks);

/// The steps of one round of a call over ranks and their predicted times on a GPU. Needs no group and no GPU. `layer`
/// is the call of a rank, with that rank's experts. Each rank is expected to have as many tokens as a round has room
/// for, and each expert to be chosen equally often.
///
/// | step                  | what                                               | where                    |
/// | announce              | quantizes this rank's tokens, writes their choices |                          |
/// | all-gather or barrier | brings the choices of all ranks here               | collectives or addresses |
/// | gather                | brings the tokens of all ranks here                | scales of whole tensors  |
/// | route ... down        | as in the layer of one GPU                         |                          |
/// | rows                  | copies rows to the slots of their choices          | rows by collectives      |
/// | sums                  | sums the rows that a token has here                | sums                     |
/// | all-to-all or barrier | results come to the ranks of their tokens          | collectives or addresses |
/// | combine               | sums the rows or sums of this rank's tokens        |                          |
///
/// Times between ranks are those of NVLink on one host. The words of barriers are not counted. Throws Error with every
/// finding about the options, and then about the layer.
std::vector<MoeStep> explain(const Moe& layer, const ExpertGroupOptions& options, int ranks, bool has_addresses,
                             const DeviceDescription& device = h200());

/// A group of ranks and its memory. Every rank makes one, and makes the same calls in the same order.
class ExpertGroup {
public:
    /// Throws Error if the options are wrong, or differ from another rank's: the message names that rank and the value.
    ExpertGroup(std::unique_ptr<Ranks> ranks, const ExpertGroupOptions& options);
    ~ExpertGroup();
    ExpertGroup(const ExpertGroup&) = delete;
    ExpertGroup& operator=(const ExpertGroup&) = delete;

    int rank() const;
    int size() const;
    Exchange exchange() const;  // not automatic
    RankSums combine() const;   // not automatic

    /// Throws what another rank has said since the last look: that its call was wrong, or that it did not come. `run`
    /// begins with it. After the replays of a CUDA graph it is the way to know.
    void check();

    /// Findings about a call of this rank: those of `validate(layer)`, and what does not fit the group.
    std::vector<Finding> validate(const Moe& layer, Check check = Check::call) const;
    std::int64_t workspace_bytes(const Moe& layer) const;
    /// Computes a layer with the tokens of this rank, x [T, hidden], T <= max_tokens. `routing.experts` has global
    /// numbers, and up and down are those of this rank, shared experts last. Called by all ranks together.
    ///
    /// Throws Error if the call is wrong. The rank has then taken part without tokens, so that no other rank waits. The
    /// other ranks throw too. On the CPU they do at the end of the call. On a GPU they do at the end of the next one,
    /// whose result is right. After a rank has not come to a barrier in time, all further calls throw.
    void run(const Moe& layer, const RunOptions& how = {});
    /// Takes part in a call without tokens, as `run` does if the call is wrong: for callers whose own checks fail.
    void decline(const RunOptions& how = {});

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace tilewright
