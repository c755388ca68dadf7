// The sort of the choices of all tokens by expert: which row each choice has.
//
// `route` is one kernel of one cluster. Each warp has consecutive choices and counts them by expert. The counts of the
// warps and blocks ahead of it become the first places of the warp's choices, to which each choice adds its own.
//
// - Places are those of the block's choices in the order of experts. Each expert has a shift from places to rows.
// - Where shared memory has room, the block brings its choices into this order. Then adjacent threads store to
//   adjacent rows. An SM stores the words of a warp at once only where they are adjacent.
// - Order and sums do not depend on timing, so that the rows are always the same.
#pragma once

#include "hopper/moe/numbers.h"

namespace tilewright::hopper {

struct Choice {
    int token;
    int of_token;  // among the token's choices
};

TILEWRIGHT_DEVICE Choice choice_at(const RouteArguments& a, int index) {
    if (a.choices == 1) return {.token = index, .of_token = 0};
    const int token = int(u32(index) / u32(a.choices));
    return {.token = token, .of_token = index - token * a.choices};
}

/// The number that each choice has in memory, -1 for those beyond int. Choices of shared experts take any number.
template <class Integer, bool fresh, int count>
TILEWRIGHT_DEVICE void load_ids(const RouteArguments& a, const Choice (&choices)[count], int (&numbers)[count]) {
    constexpr i64 largest = 0x7FFF'FFFF;
    Integer loaded[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const i64 at = choices[i].token * a.token_stride + min(choices[i].of_token, a.given - 1) * a.choice_stride;
        if constexpr (fresh) {
            loaded[i] = load_fresh(static_cast<const Integer*>(a.ids) + at);
        } else {
            loaded[i] = load_global(static_cast<const Integer*>(a.ids) + at);
        }
    }
    const int first = a.map.data != nullptr ? 0 : a.first;
#pragma unroll
    for (int i = 0; i < count; ++i) {
        numbers[i] = loaded[i] >= first && loaded[i] <= largest ? int(loaded[i]) - first : -1;
    }
}

/// The local experts of choices; -1: none, also for indices that are negative. Numbers are never trusted. All loads are
/// ahead of all branches, so that they overlap: a branch between them made each wait for the last.
/// `fresh`: other ranks have written int32 ids since the kernel began.
template <bool fresh = false, int count>
TILEWRIGHT_DEVICE void find_experts(const RouteArguments& a, const int (&indices)[count], int (&experts)[count]) {
    Choice choices[count];
    int numbers[count] = {};
#pragma unroll
    for (int i = 0; i < count; ++i) choices[i] = choice_at(a, max(indices[i], 0));
    if (a.given > 0) {
        if (!fresh && a.ids_are_wide) {
            load_ids<i64, false>(a, choices, numbers);
        } else {
            load_ids<int, fresh>(a, choices, numbers);
        }
    }
    if (a.map.data != nullptr && a.map.count > 0) {
        const int* const map = static_cast<const int*>(a.map.data);
        int places[count];
#pragma unroll
        for (int i = 0; i < count; ++i) {
            places[i] = load_global(map + clamped(numbers[i], a.map.count - 1) * a.map.stride);
        }
#pragma unroll
        for (int i = 0; i < count; ++i) {
            numbers[i] = numbers[i] >= 0 && numbers[i] < a.map.count ? places[i] : -1;
        }
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const bool is_local = numbers[i] >= 0 && numbers[i] < a.experts && !(a.map.data != nullptr && a.map.count == 0);
        const int expert = choices[i].of_token >= a.given ? a.experts - a.choices + choices[i].of_token
                           : is_local                     ? numbers[i]
                                                          : -1;
        experts[i] = indices[i] < 0 ? -1 : expert;
    }
}

/// The weight of each choice.
template <class Element, int count>
TILEWRIGHT_DEVICE void load_weights(const RouteArguments& a, const Choice (&choices)[count], float (&weights)[count]) {
    Element loaded[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const i64 at = choices[i].token * a.weights.row_stride +
                       min(choices[i].of_token, a.weights.choices - 1) * a.weights.choice_stride;
        loaded[i] = load_global(static_cast<const Element*>(a.weights.data) + at);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        if (choices[i].of_token >= a.weights.choices) continue;
        if constexpr (sizeof(Element) == sizeof(float)) {
            weights[i] = loaded[i];
        } else {
            weights[i] = a.weights.format == Number::bf16 ? from_bf16(loaded[i]) : from_f16(loaded[i]);
        }
    }
}

/// Finds the weights of these indices. A negative index gets any weight.
template <int count>
TILEWRIGHT_DEVICE void find_weights(const RouteArguments& a, const int (&indices)[count], float (&weights)[count]) {
    Choice choices[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
        choices[i] = choice_at(a, max(indices[i], 0));
        weights[i] = 1;
    }
    if (a.weights.data == nullptr || a.weights.choices == 0) return;
    if (a.weights.format == Number::f32) {
        load_weights<float>(a, choices, weights);
    } else {
        load_weights<u16>(a, choices, weights);
    }
}

/// Writes the row of a choice, -1 if it has none.
TILEWRIGHT_DEVICE void write_row(const RouteArguments& a, int index, int row) {
    if (a.rows != nullptr) store_global(reinterpret_cast<u32*>(a.rows) + index, u32(row));
    if (row < 0 || a.owner_rows == nullptr) return;
    const int each = a.owners.room * a.choices, owner = index / each;
    int* const rows = at_rank(a.owners, owner, a.owner_rows);
    store_global(reinterpret_cast<u32*>(rows) + (index - owner * each), u32(row));
}

/// Writes the choice of a row.
TILEWRIGHT_DEVICE void write_source(const RouteArguments& a, int row, int index) {
    if (a.sources != nullptr) store_global(reinterpret_cast<u32*>(a.sources) + row, u32(index));
}

/// Writes both, and the weight.
TILEWRIGHT_DEVICE void write_choice(const RouteArguments& a, int index, int row) {
    write_row(a, index, row);
    if (row < 0) return;
    write_source(a, row, index);
    if (a.row_weights == nullptr) return;
    const Choice choice = choice_at(a, index);
    store_global(a.row_weights + row, factor_at(a.weights, {.group = 0, .row = choice.token}, choice.of_token));
}

/// The first words of the shared memory of a block that routes.
struct RouteShared {
    int sums_of_block[warp_threads];
    int sums_of_cluster[warp_threads];
    int choices;  // that have an expert
};

/// The arrays after it.
struct RouteRoom {
    RouteShared& shared;
    int experts;
    int each;  // choices of a warp

    TILEWRIGHT_DEVICE int* totals() const { return reinterpret_cast<int*>(&shared + 1); }
    TILEWRIGHT_DEVICE int* shifts() const { return totals() + experts; }
    TILEWRIGHT_DEVICE int* counts(int warp) const { return totals() + (warp + 2) * experts; }
    /// By choice: where it is among the warp's choices of its expert.
    TILEWRIGHT_DEVICE u32* places() const { return reinterpret_cast<u32*>(counts(route_warps)); }
    /// By place: the choice.
    TILEWRIGHT_DEVICE u32* order() const { return places() + route_warps * each; }
    /// By choice.
    TILEWRIGHT_DEVICE float* weights() const { return reinterpret_cast<float*>(order() + route_warps * each); }
};

/// An expert and a number, in one word.
struct ExpertWord {
    static constexpr int number_bits = 20;
    static constexpr u32 none = ~0U;
    u32 word;

    static TILEWRIGHT_DEVICE ExpertWord of(int expert, int number) {
        return {expert < 0 ? none : u32(expert) << number_bits | u32(number)};
    }
    static TILEWRIGHT_DEVICE ExpertWord at(const u32& shared) {
        return {u32(load_shared(reinterpret_cast<const int&>(shared)))};
    }
    TILEWRIGHT_DEVICE bool exists() const { return word != none; }
    TILEWRIGHT_DEVICE int expert() const { return exists() ? int(word >> number_bits) : 0; }
    TILEWRIGHT_DEVICE int number() const { return int(word & ((1U << number_bits) - 1)); }
};

/// The lanes whose choice has the same expert; for -1 any lanes. By a warp together.
TILEWRIGHT_DEVICE u32 lanes_of(int expert, int bits) {
    constexpr int step = 4;  // bits whose ballots do not wait for each other
    u32 lanes = ballot(expert >= 0), left = u32(expert);
#pragma unroll 1
    for (int first = 0; first < bits; first += step, left >>= step) {
#pragma unroll
        for (int i = 0; i < step; ++i) {
            const bool is_set = (left & 1U << i) != 0;
            lanes &= ballot(is_set) ^ (is_set ? 0U : ~0U);
        }
    }
    return lanes;
}

/// The experts and, with `weighted`, the weights of choices `first`, `first` + 32, ... whose ids and weights are
/// adjacent in memory. Constant distances need no instructions.
template <bool fresh, int count>
TILEWRIGHT_DEVICE void load_adjacent(const RouteArguments& a, int first, int end, bool weighted, int (&experts)[count],
                                     float (&weights)[count]) {
    const int* const ids = static_cast<const int*>(a.ids) + first;
    const float* const factors = static_cast<const float*>(a.weights.data) + first;
#pragma unroll
    for (int i = 0; i < count; ++i) {
        experts[i] = -1;
        if (first + i * warp_threads < end) experts[i] = load_element<fresh>(ids + i * warp_threads);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        weights[i] = 1;
        if (!weighted || first + i * warp_threads >= end) continue;
        weights[i] = load_global(factors + i * warp_threads);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const bool is_local = experts[i] >= a.first && experts[i] - a.first < a.experts;
        experts[i] = is_local && first + i * warp_threads < end ? experts[i] - a.first : -1;
    }
}

/// Counts the choices from `first` on, `ahead` for each lane. As `count_choices`.
template <int ahead, bool fresh, class Use>
TILEWRIGHT_DEVICE void count_some(const RouteArguments& a, int first, int end, int* counts, float* weights, Use use) {
    const int bits = highest_bit(u32(max(a.experts - 1, 1))) + 1, lane = lane_index();
    int indices[ahead], experts[ahead];
    float loaded[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        const int index = first + i * warp_threads + lane;
        indices[i] = index < end ? index : -1;
    }
    if (a.adjacent) {
        load_adjacent<fresh>(a, first + lane, end, weights != nullptr && a.weights.data != nullptr, experts, loaded);
    } else {
        if (weights != nullptr) find_weights(a, indices, loaded);
        find_experts<fresh>(a, indices, experts);
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        const int expert = experts[i];
        if (first + i * warp_threads >= end) break;
        const u32 same = lanes_of(expert, bits), earlier = same & ((1U << lane) - 1);
        const int before = expert >= 0 ? load_shared(counts[expert]) : 0;
        sync_warp();
        if (expert >= 0 && earlier == 0) store_shared(counts[expert], before + count_bits(same));
        sync_warp();
        if (indices[i] >= 0) use(indices[i], expert, before + count_bits(earlier));
        if (weights != nullptr && indices[i] >= 0) store_shared(weights[indices[i]], loaded[i]);
    }
}

/// Counts the warp's choices by expert, in order. `use(index, expert, place)`: the place is the count ahead of the
/// choice. The expert is -1 if there is none. `weights`: where each choice's weight is kept, unless null. By a warp
/// together.
template <bool fresh, class Use>
TILEWRIGHT_DEVICE void count_choices(const RouteArguments& a, int begin, int end, int* counts, float* weights,
                                     Use use) {
    if (end - begin <= warp_threads) {
        if (begin < end) count_some<1, fresh>(a, begin, end, counts, weights, use);
        return;
    }
    for (int first = begin; first < end; first += warp_threads * route_ahead) {
        count_some<route_ahead, fresh>(a, first, end, counts, weights, use);
    }
}

/// The sum over all earlier threads of the block. Together.
TILEWRIGHT_DEVICE int sum_of_earlier_threads(int value, int (&sums)[warp_threads]) {
    const int warp = warp_index(), up_to = sum_of_lanes(value);
    if (lane_index() == warp_threads - 1) store_shared(sums[warp], up_to);
    sync_block();
    const int of_warp = lane_index() < warp ? load_shared(sums[lane_index()]) : 0;
    return from_lane(sum_of_lanes(of_warp), warp_threads - 1) + up_to - value;
}

/// The block's choices of an expert.
TILEWRIGHT_DEVICE int sum_of_warps(const RouteRoom& room, int expert) {
    int total = 0;
#pragma unroll
    for (int warp = 0; warp < route_warps; ++warp) total += load_shared(room.counts(warp)[expert]);
    return total;
}

/// Replaces the counts of each warp by the first place of its choices of the expert. Returns the place after the last.
TILEWRIGHT_DEVICE int place_warps(const RouteRoom& room, int expert, int place) {
    int counts[route_warps];
#pragma unroll
    for (int warp = 0; warp < route_warps; ++warp) counts[warp] = load_shared(room.counts(warp)[expert]);
#pragma unroll
    for (int warp = 0; warp < route_warps; ++warp) {
        store_shared(room.counts(warp)[expert], place);
        place += counts[warp];
    }
    return place;
}

/// The experts of a thread.
struct ExpertRange {
    int begin;
    int end;
};

/// Makes places of the counts of all warps. By the block together; blocks of the cluster can load the totals after its
/// next barrier.
TILEWRIGHT_DEVICE void place_block(const RouteRoom& room, const ExpertRange& own) {
    int all = 0;
    for (int expert = own.begin; expert < own.end; ++expert) {
        const int total = sum_of_warps(room, expert);
        store_shared(room.totals()[expert], total);
        all += total;
    }
    arrive_cluster();
    int place = sum_of_earlier_threads(all, room.shared.sums_of_block);
    for (int expert = own.begin; expert < own.end; ++expert) place = place_warps(room, expert, place);
    if (thread_index() == route_threads - 1) store_shared(room.shared.choices, place);
    wait_cluster();
}

/// Finds the shift of each expert from the block's places to rows, and writes the ends. By the cluster together; no
/// block may end ahead of `wait_cluster`, because others read its totals.
TILEWRIGHT_DEVICE void find_shifts(const RouteArguments& a, const RouteRoom& room, const ExpertRange& own) {
    int before[route_thread_experts], totals[route_thread_experts], all = 0;
#pragma unroll
    for (int i = 0; i < route_thread_experts; ++i) {
        before[i] = totals[i] = 0;
        if (own.begin + i >= own.end) continue;
        int of_blocks[most_route_blocks];
#pragma unroll
        for (int block = 0; block < most_route_blocks; ++block) {  // all loads are in flight at once
            of_blocks[block] = load_peer(room.totals()[own.begin + i], min(block, block_count() - 1));
        }
#pragma unroll
        for (int block = 0; block < most_route_blocks; ++block) {
            before[i] += block < block_rank() ? of_blocks[block] : 0;
            totals[i] += block < block_count() ? of_blocks[block] : 0;
        }
        all += totals[i];
    }
    int row = sum_of_earlier_threads(all, room.shared.sums_of_cluster);
    arrive_cluster_relaxed();  // the loads are complete, and a release would wait for all of the GPU
#pragma unroll
    for (int i = 0; i < route_thread_experts; ++i) {
        const int expert = own.begin + i;
        if (expert >= own.end) continue;
        store_shared(room.shifts()[expert], row + before[i] - load_shared(room.counts(0)[expert]));
        row += totals[i];
        if (block_rank() == 0 && a.ends != nullptr) store_global(reinterpret_cast<u32*>(a.ends) + expert, u32(row));
    }
    sync_block();
}

/// Writes the rows of the warp's choices, whose places are kept. If the block keeps their order too (`orders`), they
/// get their place in it; otherwise their rows get their choices. By a warp together.
template <bool orders>
TILEWRIGHT_DEVICE void write_kept(const RouteArguments& a, const RouteRoom& room, int block_begin, int begin, int end) {
    const int* const counts = room.counts(warp_index());
    for (int first = begin + lane_index(); first < end; first += warp_threads * route_ahead) {
        ExpertWord kept[route_ahead];
        int places[route_ahead], rows[route_ahead];
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) {
            const int index = first + i * warp_threads;
            kept[i] = {ExpertWord::none};
            if (index < end) kept[i] = ExpertWord::at(room.places()[index - block_begin]);
        }
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) places[i] = load_shared(counts[kept[i].expert()]) + kept[i].number();
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) {
            rows[i] = kept[i].exists() ? places[i] + load_shared(room.shifts()[kept[i].expert()]) : -1;
        }
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) {
            const int index = first + i * warp_threads;
            if (index >= end) continue;
            if constexpr (!orders) {
                write_choice(a, index, rows[i]);
            } else {
                write_row(a, index, rows[i]);
                if (!kept[i].exists()) continue;
                store_shared(room.order()[places[i]], ExpertWord::of(kept[i].expert(), index - block_begin).word);
            }
        }
    }
}

/// Writes the choice and the weight of each row of the block, in their order. By the block together.
TILEWRIGHT_DEVICE void write_in_order(const RouteArguments& a, const RouteRoom& room, int block_begin) {
    const int count = load_shared(room.shared.choices);
    for (int first = thread_index(); first < count; first += route_threads * route_ahead) {
        ExpertWord choices[route_ahead];
        int rows[route_ahead];
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) {
            choices[i] = ExpertWord::at(room.order()[min(first + i * route_threads, count - 1)]);
        }
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) {
            rows[i] = first + i * route_threads + load_shared(room.shifts()[choices[i].expert()]);
        }
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) {
            if (first + i * route_threads >= count) continue;
            write_source(a, rows[i], block_begin + choices[i].number());
            if (a.row_weights != nullptr) {
                store_global(a.row_weights + rows[i], load_shared(room.weights()[choices[i].number()]));
            }
        }
    }
}

TILEWRIGHT_DEVICE RouteRoom room_of(const RouteArguments& a, RouteShared& shared) {
    return {.shared = shared,
            .experts = a.experts,
            .each = choices_of_warp(a.tokens * a.choices, block_count() * route_warps)};
}

/// By one cluster. The counts of its warps are zeros. `fresh`: as in `find_experts`.
template <bool fresh>
TILEWRIGHT_DEVICE void route_choices(const RouteArguments& a, const RouteRoom& room) {
    const i64 total = a.tokens * a.choices;
    int* const counts = room.counts(warp_index());
    const int block_begin = int(min(i64(block_rank()) * route_warps * room.each, total));
    const int begin = int(min(block_begin + i64(warp_index()) * room.each, total));
    const int end = int(min(begin + i64(room.each), total));
    const bool orders = a.keeps == RouteKeeps::order;
    float* const weights = orders && a.row_weights != nullptr ? room.weights() - block_begin : nullptr;
    count_choices<fresh>(a, begin, end, counts, weights, [&](int index, int expert, int place) {
        if (a.keeps == RouteKeeps::nothing) return;
        store_shared(room.places()[index - block_begin], ExpertWord::of(expert, place).word);
    });
    sync_block();
    const int each = ceil_div(a.experts, route_threads);
    const ExpertRange own{min(thread_index() * each, a.experts), min((thread_index() + 1) * each, a.experts)};
    place_block(room, own);
    find_shifts(a, room, own);
    if (a.keeps == RouteKeeps::nothing) {
        count_choices<fresh>(a, begin, end, counts, nullptr, [&](int index, int expert, int place) {
            write_choice(a, index, expert < 0 ? -1 : place + load_shared(room.shifts()[expert]));
        });
    } else if (!orders) {
        write_kept<false>(a, room, block_begin, begin, end);
    } else {
        write_kept<true>(a, room, block_begin, begin, end);
        sync_block();
        write_in_order(a, room, block_begin);
    }
    let_next_kernel_start();
    wait_cluster();
}

TILEWRIGHT_DEVICE void clear_counts(const RouteRoom& room) {
    int* const counts = room.counts(warp_index());
    for (int expert = lane_index(); expert < room.experts; expert += warp_threads) store_shared(counts[expert], 0);
    sync_warp();
}

/// One cluster. The template parameter is the number of threads of a block.
template <int threads>
__global__ void __launch_bounds__(threads, 1) route(const __grid_constant__ RouteArguments a) {
    const RouteRoom room = room_of(a, known_address(shared_memory<RouteShared>()));
    clear_counts(room);
    wait_for_earlier_kernels();
    route_choices<false>(a, room);
}

}  // namespace tilewright::hopper
