// The words by which ranks meet, on the CPU and in device code.
//
// Each rank has a word for every other rank in its memory. A rank that comes to a barrier writes its epoch there, with
// the state of its call. It waits until the words of all ranks have that epoch.
#pragma once

namespace tilewright::formats {

inline constexpr int most_ranks_at_barrier = 16;

/// Whether a rank's call is one. A wrong call has no tokens.
enum class CallState : unsigned char { right, wrong };

/// The word of a rank at a barrier.
struct RankWord {
    unsigned long long bits = 0;

    static constexpr RankWord of(unsigned epoch, CallState state) {
        return {static_cast<unsigned long long>(epoch) << 32 | static_cast<unsigned long long>(state)};
    }
    constexpr unsigned epoch() const { return static_cast<unsigned>(bits >> 32); }
    constexpr CallState state() const { return static_cast<CallState>(bits & 0xFF); }
    /// Whether the rank has come to a barrier. It may be at the next one already. Epochs wrap around.
    constexpr bool has_come_to(unsigned epoch_of_barrier) const {
        return static_cast<int>(epoch() - epoch_of_barrier) >= 0;
    }
    /// Whether the call of a barrier is wrong on this rank. The word may be that of the next call already; then the
    /// barrier before this one has had that of this call.
    constexpr bool is_wrong_in(unsigned epoch_of_barrier) const {
        return state() == CallState::wrong && epoch() / 2 == epoch_of_barrier / 2;
    }
};

/// A rank's words, at the beginning of its memory.
struct RankCounters {
    unsigned long long words[most_ranks_at_barrier];  // of each rank, written by it
    unsigned epoch;                                   // of the last barrier but one: `announce` adds 2
    unsigned is_lost;                                 // not 0: a rank did not come, and none waits again
    unsigned unused[30];
};
static_assert(sizeof(RankCounters) == 256);

/// The news of a barrier for the host, in one word; 0: nothing.
struct RankReport {
    enum class Kind : unsigned char { none, lost, wrong };
    unsigned long long bits = 0;

    static constexpr RankReport of(Kind kind, int rank, int phase, unsigned epoch) {
        return {static_cast<unsigned long long>(kind) << 56 | static_cast<unsigned long long>(phase) << 48 |
                static_cast<unsigned long long>(rank) << 32 | epoch};
    }
    constexpr Kind kind() const { return static_cast<Kind>(bits >> 56); }
    constexpr int phase() const { return static_cast<int>(bits >> 48 & 0xFF); }
    constexpr int rank() const { return static_cast<int>(bits >> 32 & 0xFFFF); }
    constexpr unsigned epoch() const { return static_cast<unsigned>(bits); }
};

}  // namespace tilewright::formats
