// The sort of the choices of all tokens by expert: which row each choice has.
//
// `route` is one kernel of one cluster. Each of its 128 warps has consecutive choices and counts them by expert. Then
// the counts become the first rows of the warp's choices, to which each choice adds its place. Places are kept in
// shared memory; if they do not fit, each warp counts again. Order and sums do not depend on timing, so that the rows
// are always the same.
#pragma once

#include "hopper/moe/numbers.h"

namespace tilewright::hopper {

struct Choice {
    int token;
    int of_token;  // among the token's choices
};

TILEWRIGHT_DEVICE Choice choice_at(const RouteArguments& a, int index) {
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

/// Writes the row of a choice, -1 if it has none, and the choice of the row.
TILEWRIGHT_DEVICE void write_choice(const RouteArguments& a, int index, int row) {
    if (a.rows != nullptr) store_global(reinterpret_cast<u32*>(a.rows) + index, u32(row));
    if (row < 0) return;
    if (a.sources != nullptr) store_global(reinterpret_cast<u32*>(a.sources) + row, u32(index));
    if (a.owner_rows != nullptr) {
        const int each = a.owners.room * a.choices, owner = index / each;
        int* const rows = at_rank(a.owners, owner, a.owner_rows);
        store_global(reinterpret_cast<u32*>(rows) + (index - owner * each), u32(row));
    }
    if (a.row_weights == nullptr) return;
    const Choice choice = choice_at(a, index);
    store_global(a.row_weights + row, factor_at(a.weights, {.group = 0, .row = choice.token}, choice.of_token));
}

/// The shared memory of `route`. After it: totals of the block by expert, then the counts of each warp.
struct RouteShared {
    int sums[route_warps];
};

TILEWRIGHT_DEVICE int* totals_of(RouteShared& shared) { return reinterpret_cast<int*>(&shared + 1); }
TILEWRIGHT_DEVICE int* counts_of(RouteShared& shared, int experts, int warp) {
    return totals_of(shared) + (warp + 1) * experts;
}

/// The expert of a choice and its place among the warp's choices of the expert, in one word.
struct KeptChoice {
    static constexpr int place_bits = 20;
    static constexpr u32 none = ~0U;
    u32 word;

    static TILEWRIGHT_DEVICE KeptChoice of(int expert, int place) {
        return {expert < 0 ? none : u32(expert) << place_bits | u32(place)};
    }
    TILEWRIGHT_DEVICE int row(const int* rows_before) const {
        if (word == none) return -1;
        return load_shared(rows_before[word >> place_bits]) + int(word & ((1U << place_bits) - 1));
    }
};

/// The kept choices of a warp, after the counts.
TILEWRIGHT_DEVICE u32* kept_of(RouteShared& shared, int experts, int warp, int each) {
    return reinterpret_cast<u32*>(counts_of(shared, experts, route_warps)) + warp * each;
}

/// The lanes whose choice has the same expert, and none for -1. By a warp together.
TILEWRIGHT_DEVICE u32 lanes_of(int expert, int bits) {
    u32 lanes = ballot(expert >= 0);
    for (int bit = 0; bit < bits; ++bit) {
        const bool is_set = (expert >> bit & 1) != 0;
        const u32 set = ballot(is_set);
        lanes &= is_set ? set : ~set;
    }
    return lanes;
}

/// Counts the warp's choices by expert, in order. `use(index, expert, place)`: the place is the count ahead of the
/// choice. The expert is -1 if there is none. By a warp together.
template <bool fresh, class Use>
TILEWRIGHT_DEVICE void count_choices(const RouteArguments& a, int begin, int end, int* counts, Use use) {
    const int bits = highest_bit(u32(max(a.experts - 1, 1))) + 1;
    for (int first = begin; first < end; first += warp_threads * route_ahead) {
        int indices[route_ahead], experts[route_ahead];
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) {
            const int index = first + i * warp_threads + lane_index();
            indices[i] = index < end ? index : -1;
        }
        find_experts<fresh>(a, indices, experts);
#pragma unroll
        for (int i = 0; i < route_ahead; ++i) {
            const int index = first + i * warp_threads + lane_index(), expert = experts[i];
            if (first + i * warp_threads >= end) break;
            const u32 same = lanes_of(expert, bits), earlier = same & ((1U << lane_index()) - 1);
            const int before = expert >= 0 ? load_shared(counts[expert]) : 0;
            sync_warp();
            if (expert >= 0 && earlier == 0) store_shared(counts[expert], before + count_bits(same));
            sync_warp();
            if (index < end) use(index, expert, before + count_bits(earlier));
        }
    }
}

/// Replaces the counts of each warp by the counts of the warps ahead of it, and writes the block's totals. Each thread
/// has consecutive experts.
TILEWRIGHT_DEVICE void add_up_warps(RouteShared& shared, int experts, int first, int count) {
    for (int expert = first; expert < min(first + count, experts); ++expert) {
        int total = 0;
#pragma unroll
        for (int warp = 0; warp < route_warps; ++warp) {
            int& place = counts_of(shared, experts, warp)[expert];
            const int own = load_shared(place);
            store_shared(place, total);
            total += own;
        }
        store_shared(totals_of(shared)[expert], total);
    }
}

/// The sum over all earlier threads of the block. Together.
TILEWRIGHT_DEVICE int sum_of_earlier_threads(int value, RouteShared& shared) {
    const int warp = warp_index(), up_to = sum_of_lanes(value);
    if (lane_index() == warp_threads - 1) store_shared(shared.sums[warp], up_to);
    sync_block();
    const int of_warp = lane_index() < warp ? load_shared(shared.sums[lane_index()]) : 0;
    return from_lane(sum_of_lanes(of_warp), warp_threads - 1) + up_to - value;
}

/// Adds the first row of each expert, and the choices of earlier blocks, to the counts. By the cluster together.
TILEWRIGHT_DEVICE void add_rows_before(const RouteArguments& a, RouteShared& shared, int first, int count) {
    int before[route_thread_experts], totals[route_thread_experts], all = 0;
#pragma unroll
    for (int i = 0; i < route_thread_experts; ++i) {
        before[i] = totals[i] = 0;
        if (i >= count || first + i >= a.experts) continue;
#pragma unroll
        for (int block = 0; block < route_blocks; ++block) {
            const int total = load_peer(totals_of(shared)[first + i], block);
            before[i] += block < block_rank() ? total : 0;
            totals[i] += total;
        }
        all += totals[i];
    }
    int row = sum_of_earlier_threads(all, shared);
#pragma unroll
    for (int i = 0; i < route_thread_experts; ++i) {
        if (i >= count || first + i >= a.experts) continue;
        for (int warp = 0; warp < route_warps; ++warp) {
            int& place = counts_of(shared, a.experts, warp)[first + i];
            store_shared(place, load_shared(place) + row + before[i]);
        }
        row += totals[i];
        if (block_rank() == 0 && a.ends != nullptr) store_global(reinterpret_cast<u32*>(a.ends) + first + i, u32(row));
    }
}

/// By one cluster of `route_blocks` blocks. The counts of its warps are zeros. `fresh`: as in `find_experts`.
template <int threads, bool fresh>
TILEWRIGHT_DEVICE void route_choices(const RouteArguments& a, RouteShared& shared) {
    int* const counts = counts_of(shared, a.experts, warp_index());
    const int total = a.tokens * a.choices, warp = block_rank() * route_warps + warp_index();
    const int each = choices_of_warp(total);
    const int begin = min(i64(warp) * each, i64(total)), end = min(begin + i64(each), i64(total));
    u32* const kept = kept_of(shared, a.experts, warp_index(), each);
    count_choices<fresh>(a, begin, end, counts, [&](int index, int expert, int place) {
        if (a.keeps) store_shared(kept[index - begin], KeptChoice::of(expert, place).word);
    });
    sync_block();
    const int thread_experts = ceil_div(a.experts, threads), first = thread_index() * thread_experts;
    add_up_warps(shared, a.experts, first, thread_experts);
    sync_cluster();
    add_rows_before(a, shared, first, thread_experts);
    sync_cluster();  // others have read the totals
    if (a.keeps) {
        for (int index = begin + lane_index(); index < end; index += warp_threads) {
            write_choice(a, index,
                         KeptChoice{u32(load_shared(reinterpret_cast<int&>(kept[index - begin])))}.row(counts));
        }
    } else {
        count_choices<fresh>(a, begin, end, counts,
                             [&](int index, int expert, int row) { write_choice(a, index, expert < 0 ? -1 : row); });
    }
    let_next_kernel_start();
}

TILEWRIGHT_DEVICE void clear_counts(const RouteArguments& a, RouteShared& shared) {
    int* const counts = counts_of(shared, a.experts, warp_index());
    for (int expert = lane_index(); expert < a.experts; expert += warp_threads) store_shared(counts[expert], 0);
    sync_warp();
}

/// One cluster. The template parameter is its number of threads.
template <int threads>
__global__ void __launch_bounds__(threads, 1) route(const __grid_constant__ RouteArguments a) {
    auto& shared = shared_memory<RouteShared>();
    clear_counts(a, shared);
    wait_for_earlier_kernels();
    route_choices<threads, false>(a, shared);
}

}  // namespace tilewright::hopper
