// The steps between ranks on the CPU. Ranks are threads of a process, or processes that share memory.
#include "moe/exchange.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "moe/rows.h"

namespace tilewright::moe {
namespace {

using formats::CallState;
using formats::RankReport;
using formats::RankWord;

std::int32_t& number(const Tensor& numbers, std::int64_t row, std::int64_t column) {
    return static_cast<std::int32_t*>(numbers.data)[row * numbers.strides[0] + column * numbers.strides[1]];
}

float& weight(const Tensor& weights, std::int64_t row, std::int64_t column) {
    return static_cast<float*>(weights.data)[row * weights.strides[0] + column * weights.strides[1]];
}

/// A tensor at its place in the memory of another rank.
Tensor at_rank(Tensor tensor, const RankMemory& memory, std::int64_t rank) {
    tensor.data = static_cast<std::byte*>(tensor.data) + memory.shifts[rank];
    return tensor;
}

/// The place of an expert for a token; -1 if the number names no expert.
std::int64_t place_of(const AnnounceStep& step, std::int64_t expert, std::int64_t token) {
    if (expert < 0 || expert >= step.numbers) return -1;
    if (!step.places.given()) {
        const std::int64_t routed = step.experts - step.shared;
        return expert / routed * step.experts + expert % routed;
    }
    std::int64_t copies = 0;
    while (copies < step.places.shape[1] && number(step.places, expert, copies) >= 0) ++copies;
    return copies > 0 ? number(step.places, expert, token % copies) : -1;
}

std::atomic_ref<unsigned long long> word_at(formats::RankCounters* counters, int rank) {
    return std::atomic_ref<unsigned long long>(counters->words[rank]);
}

/// Where the words of all ranks come from.
class Barrier {
public:
    explicit Barrier(const MeetStep& step)
        : step_(step), epoch_(step.counters->epoch + static_cast<unsigned>(step.phase)) {}

    /// Reports what the words say that a collective has brought.
    void read() {
        for (int rank = 0; rank < step_.memory.size; ++rank) {
            const auto* const at = reinterpret_cast<const std::byte*>(step_.said);
            look_at(*reinterpret_cast<const RankWord*>(at + step_.memory.shifts[rank]), rank);
        }
    }

    /// Tells all ranks that this one has come, and waits for them.
    void wait() {
        if (step_.counters->is_lost != 0) return;
        for (int rank = 0; rank < step_.memory.size; ++rank) {
            auto* const there = reinterpret_cast<formats::RankCounters*>(reinterpret_cast<std::byte*>(step_.counters) +
                                                                         step_.memory.shifts[rank]);
            word_at(there, step_.memory.rank).store(RankWord::of(epoch_, step_.state).bits, std::memory_order_release);
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(step_.nanoseconds);
        for (int rank = 0; rank < step_.memory.size; ++rank) wait_for(rank, end);
    }

private:
    void wait_for(int rank, std::chrono::steady_clock::time_point end) {
        RankWord said{};
        while (true) {
            said.bits = word_at(step_.counters, rank).load(std::memory_order_acquire);
            if (said.has_come_to(epoch_)) break;
            if (std::chrono::steady_clock::now() > end) {
                report(RankReport::Kind::lost, rank);
                step_.counters->is_lost = 1;
                return;
            }
            std::this_thread::yield();
        }
        look_at(said, rank);
    }
    void look_at(const RankWord& said, int rank) {
        if (said.is_wrong_in(epoch_)) report(RankReport::Kind::wrong, rank);
    }
    /// A rank that is lost counts for more than a wrong call.
    void report(RankReport::Kind kind, int rank) {
        if (rank == step_.memory.rank) return;
        const std::atomic_ref<unsigned long long> word(step_.report->bits);
        if (RankReport{word.load()}.kind() == RankReport::Kind::lost) return;
        word.store(RankReport::of(kind, rank, step_.phase, epoch_).bits);
    }

    const MeetStep& step_;
    unsigned epoch_;
};

/// Local experts and weights of all tokens.
void collect_choices(const MeetStep& step) {
    const std::int64_t room = step.memory.room, choices = step.ids.shape[1];
    for (std::int64_t row = 0; row < step.out.shape[0]; ++row) {
        const std::int64_t rank = row / room, token = row % room;
        for (std::int64_t choice = 0; choice < choices; ++choice) {
            const std::int64_t place = number(at_rank(step.ids, step.memory, rank), token, choice);
            const std::int64_t local = place - std::int64_t{step.memory.rank} * step.experts;
            number(step.out, row, choice) = static_cast<std::int32_t>(local >= 0 && local < step.experts ? local : -1);
            weight(step.out_weights, row, choice) = weight(at_rank(step.weights, step.memory, rank), token, choice);
        }
    }
}

/// Where the row of each choice is.
void collect_rows(const MeetStep& step) {
    const std::int64_t choices = step.ids.shape[1];
    for (std::int64_t token = 0; token < step.out.shape[0]; ++token) {
        for (std::int64_t choice = 0; choice < choices; ++choice) {
            const std::int64_t place = number(step.ids, token, choice), rank = place / step.experts;
            std::int64_t row = -1;
            if (place >= 0 && rank < step.memory.size) {
                row =
                    step.collects == Collects::sent_rows ? token * choices + choice : number(step.rows, token, choice);
                row = row >= 0 && row < step.row_count ? rank * step.row_count + row : -1;
            }
            number(step.out, token, choice) = static_cast<std::int32_t>(row);
        }
    }
}

void collect_sums(const MeetStep& step) {
    for (std::int64_t token = 0; token < step.out.shape[0]; ++token) {
        for (std::int64_t rank = 0; rank < step.memory.size; ++rank) number(step.out, token, rank) = -1;
        for (std::int64_t choice = 0; choice < step.ids.shape[1]; ++choice) {
            const std::int64_t place = number(step.ids, token, choice), rank = place / step.experts;
            if (place < 0 || rank >= step.memory.size) continue;
            number(step.out, token, rank) = static_cast<std::int32_t>(rank * step.memory.room + token);
        }
    }
}

}  // namespace

void run_on_cpu(const AnnounceStep& step) {
    const Tensor& ids = step.routing.experts;
    const RowNumbers chosen = RowNumbers::by_choice(ids), weights = RowNumbers::by_choice(step.routing.weights);
    const std::int64_t tokens = ids.given() ? ids.shape[0] : 0;
    const std::int64_t first_shared = std::int64_t{step.rank + 1} * step.experts - step.shared;
    for (std::int64_t token = 0; token < step.ids.shape[0]; ++token) {
        for (std::int64_t choice = 0; choice < step.ids.shape[1]; ++choice) {
            std::int64_t place = -1;
            if (token < tokens) {
                place = choice >= chosen.choices() ? first_shared + choice - chosen.choices()
                                                   : place_of(step, chosen.integer(token, choice), token);
            }
            for (int rank = 0; rank < std::max(step.to.size, 1); ++rank) {
                const bool goes = step.to.given();
                number(goes ? at_rank(step.ids, step.to, rank) : step.ids, token, choice) =
                    static_cast<std::int32_t>(place);
                weight(goes ? at_rank(step.weights, step.to, rank) : step.weights, token, choice) =
                    token < tokens ? weights.factor(token, choice) : 0;
            }
            if (step.rows.given()) number(step.rows, token, choice) = -1;
        }
    }
    step.counters->epoch += 2;
    if (step.said != nullptr) *step.said = RankWord::of(step.counters->epoch, step.state);
}

void run_on_cpu(const MeetStep& step) {
    if (step.said == nullptr) {
        Barrier(step).wait();
    } else {
        Barrier(step).read();
    }
    switch (step.collects) {
        case Collects::nothing: return;
        case Collects::choices: return collect_choices(step);
        case Collects::rows:
        case Collects::sent_rows: return collect_rows(step);
        case Collects::sums: return collect_sums(step);
    }
}

}  // namespace tilewright::moe
