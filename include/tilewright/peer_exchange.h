// The exchanges of ranks outside of a call of an ExpertGroup: tokens and gradients of training.
//
// Two exchanges take turns, through memory that all ranks reach:
//
//     gather     each rank copies its bytes to its memory. After a barrier it copies those of all ranks from theirs.
//
//     hand back  each rank copies part r of its bytes to the memory of rank r. A barrier follows.
//
// The other exchange, with its barrier, lies between two of a kind. So no rank writes where another one still reads.
#pragma once

#include <tilewright/ranks.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tilewright {

/// Tensors lie at multiples of it. Each counts with its bytes rounded up to one.
inline constexpr std::int64_t peer_alignment = 128;

/// All ranks agree on them.
struct PeerExchangeSizes {
    std::int64_t gathered = 0;     // the most bytes of a rank in a gather
    std::int64_t handed_back = 0;  // the most bytes from one rank to another
    double seconds = 20;           // how long a rank waits for another one
};

/// A rank that did not come to a barrier in time.
struct LostRank {
    int rank = 0;
    std::int64_t turn = 0;  // a gather and the hand back after it; the first is 0
    bool in_gather = true;
};

/// Memory of this rank's device. The tensors of an exchange have the same sizes on all ranks.
struct SentBytes {
    const void* from = nullptr;
    std::int64_t bytes = 0;  // of a rank in a gather; from one rank to another in a hand back
    void* to = nullptr;      // gather: rank r's bytes come to to + r * bytes
};

/// Every rank makes one, and makes the same calls in the same order.
class PeerExchange {
public:
    /// Throws Error if sizes are wrong or differ between ranks, or if a rank has no addresses of the others.
    PeerExchange(std::unique_ptr<Ranks> ranks, const PeerExchangeSizes& sizes);
    ~PeerExchange();
    PeerExchange(const PeerExchange&) = delete;
    PeerExchange& operator=(const PeerExchange&) = delete;

    /// In the order of a stream, which may be capturing. Throws Error for more bytes than agreed.
    void gather(const std::vector<SentBytes>& tensors, void* stream = nullptr);
    /// The bytes from + r * bytes come to rank r. Returns an address for each tensor, where the bytes of rank r begin
    /// at r * bytes. They stay in memory of this rank until the end of the next gather.
    std::vector<const void*> hand_back(const std::vector<SentBytes>& tensors, void* stream = nullptr);

    /// A rank that is lost stays so, and what was exchanged since then is invalid: make a new group. On a GPU this is
    /// what the kernels have found until now.
    std::optional<LostRank> lost();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace tilewright
