// The two exchanges of training. A barrier's epoch is that of formats/rank_words.h: a gather is the first of a turn, a
// hand back the second.
#include <tilewright/error.h>
#include <tilewright/peer_exchange.h>

#include <cstring>
#include <string>
#include <utility>

#include "api/moe_run.h"
#include "api/rank_check.h"
#include "api/rank_memory.h"
#include "base/math.h"
#include "cuda/memory.h"
#include "moe/exchange.h"

namespace tilewright {
namespace {

using formats::RankReport;

constexpr std::int64_t most_bytes = std::int64_t{1} << 40;
constexpr int gather_phase = 0, hand_back_phase = 1;

static_assert(peer_alignment == Arena::alignment);
std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, peer_alignment); }

std::vector<Finding> check(const PeerExchangeSizes& sizes) {
    std::vector<Finding> findings;
    const auto require_bytes = [&](const char* name, std::int64_t bytes) {
        if (bytes >= 1 && bytes <= most_bytes) return;
        findings.push_back({name, std::to_string(bytes), "1 to " + std::to_string(most_bytes) + " bytes", ""});
    };
    require_bytes("gathered", sizes.gathered);
    require_bytes("handed_back", sizes.handed_back);
    if (!(sizes.seconds > 0 && sizes.seconds <= 1e9)) {
        findings.push_back({"seconds", std::to_string(sizes.seconds), "more than 0 and at most 1e9", ""});
    }
    return findings;
}

/// Findings of any rank end the making of all.
const PeerExchangeSizes& agreed(Ranks& ranks, const PeerExchangeSizes& sizes) {
    struct Said {
        std::int64_t gathered, handed_back, wrong;
    };
    std::vector<Finding> findings = check(sizes);
    const Said own{sizes.gathered, sizes.handed_back, findings.empty() ? 0 : 1};
    std::vector<Said> all(static_cast<std::size_t>(ranks.size()));
    ranks.share(&own, all.data(), sizeof(Said));
    require_none(std::move(findings));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const std::string other = "rank " + std::to_string(rank);
        const auto require = [&](const char* name, std::int64_t here, std::int64_t there) {
            if (here == there) return;
            require_none({{name, std::to_string(here), std::to_string(there) + ", as on " + other,
                           "Pass equal sizes on all ranks."}});
        };
        if (all[rank].wrong != 0) throw Error("the sizes of " + other + " are wrong; see the error there");
        require("gathered", own.gathered, all[rank].gathered);
        require("handed_back", own.handed_back, all[rank].handed_back);
    }
    return sizes;
}

}  // namespace

struct PeerExchange::State {
    State(std::unique_ptr<Ranks> of, const PeerExchangeSizes& given);

    void copy(void* to, const void* from, std::int64_t bytes, void* stream) const;
    void begin_turn(void* stream) const;
    void meet(int phase, void* stream);
    void require_room(const std::vector<SentBytes>& tensors, std::int64_t room, const char* what) const;
    std::byte* at_rank(std::byte* here, int rank) const { return here + shifts[static_cast<std::size_t>(rank)]; }
    /// The ranks after this one, and then it: not all ranks read the memory of one at a time.
    int rank_after(int i) const { return (ranks->rank() + 1 + i) % ranks->size(); }

    std::unique_ptr<Ranks> ranks;
    PeerExchangeSizes sizes;
    DeviceId device;
    formats::RankCounters* counters = nullptr;
    std::byte* gathered = nullptr;     // what this rank gives
    std::byte* handed_back = nullptr;  // what all ranks have written here
    std::vector<std::int64_t> shifts{};
    RankReportForHost report;
    std::optional<LostRank> lost{};
    int next_phase = gather_phase;
};

PeerExchange::State::State(std::unique_ptr<Ranks> of, const PeerExchangeSizes& given)
    : ranks(std::move(of)), sizes(agreed(*ranks, given)), device(ranks->device()), report(device) {
    const std::int64_t begin = sizeof(formats::RankCounters), gives = aligned(sizes.gathered);
    auto* const memory =
        static_cast<std::byte*>(allocated(*ranks, begin + gives + ranks->size() * aligned(sizes.handed_back)));
    const std::vector<void*> addresses = ranks->addresses();
    const bool are_few = ranks->size() <= most_ranks_with_addresses;
    if (!all_have(*ranks, are_few && !addresses.empty())) {
        require_none({{"ranks", std::to_string(ranks->size()) + " ranks without addresses of each other",
                       "at most " + std::to_string(most_ranks_with_addresses) + " that reach each other's memory",
                       "Use the collectives of their engine."}});
    }
    counters = reinterpret_cast<formats::RankCounters*>(memory);
    gathered = memory + begin;
    handed_back = gathered + gives;
    shifts = shifts_between(addresses, memory);
    all_have(*ranks, true);  // memory is zeros on all ranks before anyone writes there
}

void PeerExchange::State::copy(void* to, const void* from, std::int64_t bytes, void* stream) const {
    if (bytes == 0) return;
    if (device.kind == DeviceId::Kind::cuda) return cuda::copy(device.index, to, from, bytes, stream);
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// Advances the epoch, as the announcement of a call without tokens.
void PeerExchange::State::begin_turn(void* stream) const {
    moe::AnnounceStep step{.counters = counters};
    step.ids = row_major(static_cast<void*>(nullptr), Format::i32, {0, 1});
    run_step(step, device, {.stream = stream});
}

void PeerExchange::State::meet(int phase, void* stream) {
    const moe::MeetStep step{
        .memory = {.rank = ranks->rank(), .size = ranks->size(), .shifts = shifts.data(), .room = 0},
        .counters = counters,
        .phase = phase,
        .nanoseconds = static_cast<std::int64_t>(sizes.seconds * 1e9),
        .report = report.to_write()};
    run_step(step, device, {.stream = stream});
    next_phase = phase == gather_phase ? hand_back_phase : gather_phase;
}

void PeerExchange::State::require_room(const std::vector<SentBytes>& tensors, std::int64_t room,
                                       const char* what) const {
    std::int64_t bytes = 0;
    for (const SentBytes& tensor : tensors) bytes += aligned(tensor.bytes);
    if (bytes <= aligned(room)) return;
    require_none({{what, std::to_string(bytes) + " bytes", "at most " + std::to_string(room) + ", as agreed",
                   "Make a new exchange of this size on all ranks."}});
}

PeerExchange::PeerExchange(std::unique_ptr<Ranks> ranks, const PeerExchangeSizes& sizes)
    : state_(std::make_unique<State>(std::move(ranks), sizes)) {}
PeerExchange::~PeerExchange() = default;

void PeerExchange::gather(const std::vector<SentBytes>& tensors, void* stream) {
    State& own = *state_;
    own.require_room(tensors, own.sizes.gathered, "gathered");
    if (own.next_phase != gather_phase) own.meet(hand_back_phase, stream);  // others may still read the last gather
    own.begin_turn(stream);
    std::byte* at = own.gathered;
    for (const SentBytes& tensor : tensors) {
        own.copy(at, tensor.from, tensor.bytes, stream);
        at += aligned(tensor.bytes);
    }
    own.meet(gather_phase, stream);
    at = own.gathered;
    for (const SentBytes& tensor : tensors) {
        for (int i = 0; i < own.ranks->size(); ++i) {
            const int rank = own.rank_after(i);
            own.copy(static_cast<std::byte*>(tensor.to) + rank * tensor.bytes, own.at_rank(at, rank), tensor.bytes,
                     stream);
        }
        at += aligned(tensor.bytes);
    }
}

std::vector<const void*> PeerExchange::hand_back(const std::vector<SentBytes>& tensors, void* stream) {
    State& own = *state_;
    own.require_room(tensors, own.sizes.handed_back, "handed_back");
    if (own.next_phase != hand_back_phase) {  // others may still read the last hand back
        own.begin_turn(stream);
        own.meet(gather_phase, stream);
    }
    std::vector<const void*> received;
    std::byte* at = own.handed_back;
    for (const SentBytes& tensor : tensors) {
        received.push_back(at);
        for (int i = 0; i < own.ranks->size(); ++i) {
            const int rank = own.rank_after(i);
            own.copy(own.at_rank(at + own.ranks->rank() * tensor.bytes, rank),
                     static_cast<const std::byte*>(tensor.from) + rank * tensor.bytes, tensor.bytes, stream);
        }
        at += own.ranks->size() * aligned(tensor.bytes);
    }
    own.meet(hand_back_phase, stream);
    return received;
}

std::optional<LostRank> PeerExchange::lost() {
    State& own = *state_;
    const RankReport found = own.report.take();
    if (!own.lost && found.kind() == RankReport::Kind::lost) {
        own.lost = LostRank{.rank = found.rank(), .turn = turn_of(found), .in_gather = found.phase() == gather_phase};
    }
    return own.lost;
}

}  // namespace tilewright
