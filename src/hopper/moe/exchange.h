// The kernels between the ranks of a group. `announce` writes the choices of this rank's tokens where all ranks read
// them. `meet` is a barrier of all ranks, after which a rank collects what it needs to know of the others.
//
// A barrier's only state is an epoch, which `announce` advances. Each block of `meet` writes the epoch into this rank's
// word of every rank, and waits until all ranks have written theirs here. Any block may come first, so that blocks need
// not run at the same time.
#pragma once

#include "hopper/moe/route.h"

namespace tilewright::hopper {

using formats::CallState;
using formats::RankReport;
using formats::RankWord;

/// The place of an expert for a token; -1 if the number names no expert. Numbers are never trusted.
TILEWRIGHT_DEVICE int place_of_expert(const AnnounceArguments& a, i64 number, int token) {
    if (number < 0 || number >= a.numbers) return -1;
    if (a.table == nullptr) return int(number) + int(u32(number) / u32(a.routed)) * a.shared;
    const int* const places = a.table + number * a.copies;
    int copies = 0;
    while (copies < a.copies && load_global(places + copies) >= 0) ++copies;
    return copies > 0 ? load_global(places + token % copies) : -1;
}

TILEWRIGHT_DEVICE i64 id_at(const RouteArguments& a, const Choice& choice) {
    const i64 at = choice.token * a.token_stride + choice.of_token * a.choice_stride;
    return load_integer(a.ids, a.ids_are_wide, at);
}

TILEWRIGHT_DEVICE void announce_choice(const AnnounceArguments& a, int index) {
    const Choice choice = choice_at(a.route, index);
    int place = -1;
    float weight = 0;
    if (choice.token < a.route.tokens) {
        place = choice.of_token >= a.route.given ? a.first_shared + choice.of_token - a.route.given
                                                 : place_of_expert(a, id_at(a.route, choice), choice.token);
        weight = factor_at(a.route.weights, {.group = 0, .row = choice.token}, choice.of_token);
    }
    for (int rank = 0; rank < a.ranks; ++rank) {
        const bool goes = a.ranks > 1;
        store_global(reinterpret_cast<u32*>(goes ? at_rank(a.to, rank, a.ids) : a.ids) + index, u32(place));
        store_global((goes ? at_rank(a.to, rank, a.weights) : a.weights) + index, weight);
    }
    if (a.rows != nullptr) store_global(reinterpret_cast<u32*>(a.rows) + index, u32(-1));
}

/// By the grid together.
TILEWRIGHT_DEVICE void announce_choices(const AnnounceArguments& a) {
    const int first = block_index() * block_threads() + thread_index(), step = block_count() * block_threads();
    for (int index = first; index < a.room * a.route.choices; index += step) announce_choice(a, index);
    if (first != 0) return;
    a.counters->epoch += 2;
    if (a.said != nullptr) *a.said = RankWord::of(a.counters->epoch, a.state);
}

/// The template parameter is the number of threads of a block.
template <int threads>
__global__ void __launch_bounds__(threads, 1) announce(const __grid_constant__ AnnounceArguments a) {
    wait_for_earlier_kernels();
    let_next_kernel_start();
    announce_choices(a);
}

/// A rank that is lost counts for more than a wrong call.
TILEWRIGHT_DEVICE void report_rank(const MeetArguments& a, RankReport::Kind kind, int rank, u32 epoch) {
    if (rank == a.rank) return;
    const RankReport earlier{load_acquire(&a.report->bits)};
    if (earlier.kind() == RankReport::Kind::lost) return;
    store_release(&a.report->bits, RankReport::of(kind, rank, a.phase, epoch).bits);
}

/// Waits for the word of a rank that has come to the barrier. Returns whether it came in time.
TILEWRIGHT_DEVICE bool wait_for_rank(const MeetArguments& a, int rank, u32 epoch, RankWord& said) {
    const i64 begin = nanoseconds();
    while (true) {
        said.bits = load_acquire(&a.counters->words[rank]);
        if (said.has_come_to(epoch)) return true;
        if (nanoseconds() - begin > a.nanoseconds) return false;
    }
}

/// The word of another rank, which is told first. Returns whether there is one.
TILEWRIGHT_DEVICE bool hear(const MeetArguments& a, int rank, u32 epoch, RankWord& said) {
    if (a.said != nullptr) {
        said = *at_rank(a.ranks, rank, a.said);
        return true;
    }
    auto* const there = at_rank(a.ranks, rank, a.counters);
    store_release(&there->words[a.rank], RankWord::of(epoch, a.state).bits);
    return wait_for_rank(a, rank, epoch, said);
}

/// Returns when all ranks have come, or one is lost. By the block together; thread r deals with rank r.
TILEWRIGHT_DEVICE void meet_ranks(const MeetArguments& a) {
    const int rank = thread_index();
    if (rank < a.count && a.counters->is_lost == 0) {
        const u32 epoch = a.counters->epoch + u32(a.phase);
        RankWord said;
        if (!hear(a, rank, epoch, said)) {
            report_rank(a, RankReport::Kind::lost, rank, epoch);
            a.counters->is_lost = 1;
        } else if (said.is_wrong_in(epoch)) {
            report_rank(a, RankReport::Kind::wrong, rank, epoch);
        }
    }
    sync_block();
}

/// `route` after a barrier.
template <int threads>
__global__ void __launch_bounds__(threads, 1) meet_and_route(const __grid_constant__ MeetAndRouteArguments a) {
    const RouteRoom room = room_of(a.route, known_address(shared_memory<RouteShared>()));
    clear_counts(room);
    wait_for_earlier_kernels();
    meet_ranks(a.meet);
    route_choices<true>(a.route, room);
}

/// Local experts and weights of the choices of all ranks from `first` on, which a collective has brought, several loads
/// ahead.
TILEWRIGHT_DEVICE void collect_choices(const MeetArguments& a, int first, int step) {
    const int each = a.ranks.room * a.choices, total = a.count * each;
    for (; first < total; first += meet_ahead * step) {
        int places[meet_ahead];
        float weights[meet_ahead];
#pragma unroll
        for (int i = 0; i < meet_ahead; ++i) {
            const int index = min(first + i * step, total - 1), rank = index / each;
            places[i] = load_global(at_rank(a.ranks, rank, a.ids) + (index - rank * each));
            weights[i] = load_global(at_rank(a.ranks, rank, a.weights) + (index - rank * each));
        }
#pragma unroll
        for (int i = 0; i < meet_ahead; ++i) {
            if (first + i * step >= total) continue;
            const int local = places[i] - a.rank * a.experts;
            const bool is_here = places[i] >= 0 && local >= 0 && local < a.experts;
            store_global(reinterpret_cast<u32*>(a.out) + first + i * step, u32(is_here ? local : -1));
            store_global(a.out_weights + first + i * step, weights[i]);
        }
    }
}

/// Where the row of a choice is: rank * row_count + row; -1: nowhere.
TILEWRIGHT_DEVICE int found_row(const MeetArguments& a, int token, int choice) {
    const int index = token * a.choices + choice, place = load_fresh(a.ids + index), rank = place / a.experts;
    if (place < 0 || rank >= a.count) return -1;
    const int row = a.rows == nullptr ? index : load_fresh(a.rows + index);
    return row >= 0 && row < a.row_count ? rank * a.row_count + row : -1;
}

/// Where a rank's sum of a token is: rank * room + token; -1: it has none.
TILEWRIGHT_DEVICE int found_sum(const MeetArguments& a, int token, int rank) {
    const int* const places = a.ids + token * a.choices;
    bool has = false;
    for (int first = 0; first < a.choices; first += found_ahead) {
        int locals[found_ahead];
#pragma unroll
        for (int i = 0; i < found_ahead; ++i)
            locals[i] = first + i < a.choices ? load_fresh(places + first + i) - rank * a.experts : -1;
#pragma unroll
        for (const int local : locals) has = has || (local >= 0 && local < a.experts);
    }
    return has ? rank * a.ranks.room + token : -1;
}

/// The at-th row or sum that a rank adds for a token, of `parts_of_token`.
TILEWRIGHT_DEVICE int found_part(const MeetArguments& a, int token, int at) {
    return a.collects == Collected::sums ? found_sum(a, token, at) : found_row(a, token, at);
}
TILEWRIGHT_DEVICE int parts_of_token(const MeetArguments& a) {
    return a.collects == Collected::sums ? a.count : a.choices;
}

template <int threads>
__global__ void __launch_bounds__(threads, 1) meet(const __grid_constant__ MeetArguments a) {
    wait_for_earlier_kernels();
    meet_ranks(a);
    const int first = block_index() * threads + thread_index(), step = block_count() * threads;
    if (a.collects == Collected::choices) {
        collect_choices(a, first, step);
    } else if (a.collects != Collected::nothing) {
        const int parts = parts_of_token(a);
        for (int index = first; index < a.tokens * parts; index += step) {
            const int token = index / parts;
            store_global(reinterpret_cast<u32*>(a.out) + index, u32(found_part(a, token, index - token * parts)));
        }
    }
    let_next_kernel_start();
}

}  // namespace tilewright::hopper
