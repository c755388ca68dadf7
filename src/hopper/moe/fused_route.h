// The rows of a token's choices within the kernel that copies the token, for few choices. A choice's row is the number
// of choices of smaller experts, and of earlier choices of its expert. Each block counts for its tokens.
#pragma once

#include "hopper/moe/exchange.h"
#include "hopper/moe/output.h"

namespace tilewright::hopper {

struct FusedShared {
    RowShared rows;
    IntQuad order[most_fused_choices / 4];  // of each choice: by expert, then by number
    int places[most_fused_choices];         // of the block's token
};

inline constexpr int no_order = 0x7FFF'FFFF;  // after all choices
TILEWRIGHT_DEVICE int first_order(int expert) { return expert * most_fused_choices; }

/// Finds the order of all choices, of each thread `ahead` at a time.
template <int ahead, bool fresh>
TILEWRIGHT_DEVICE void order_choices(const RouteArguments& a, int threads, FusedShared& shared) {
    const int total = a.tokens * a.choices;
    for (int first = thread_index(); first < round_up(total, 4 * warp_threads); first += ahead * threads) {
        int indices[ahead], experts[ahead];
#pragma unroll
        for (int j = 0; j < ahead; ++j) indices[j] = first + j * threads < total ? first + j * threads : -1;
        find_experts<fresh>(a, indices, experts);
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            const int i = first + j * threads, own = first_order(experts[j] < 0 ? a.experts : experts[j]) + i;
            if (i < most_fused_choices) store_shared(shared.order[i / 4].values[i % 4], i < total ? own : no_order);
        }
    }
}

/// The same, by the block together. The fewest choices have the shortest way. `fresh`: as in `find_experts`.
template <bool fresh>
TILEWRIGHT_DEVICE void order_choices(const RouteArguments& a, int threads, FusedShared& shared) {
    if (a.tokens * a.choices <= threads) {
        order_choices<1, fresh>(a, threads, shared);
    } else {
        order_choices<fused_ahead, fresh>(a, threads, shared);
    }
    sync_block();
}

/// The choices whose order is below a bound. By a warp together.
TILEWRIGHT_DEVICE int count_below(int bound, int total, const FusedShared& shared) {
    int count = 0;
    for (int i = lane_index(); i * 4 < total; i += warp_threads) {
        const IntQuad quad = load_shared(shared.order[i]);
#pragma unroll
        for (const int order : quad.values) count += order < bound ? 1 : 0;
    }
    return from_lane(sum_of_lanes(count), warp_threads - 1);
}

/// Finds the rows of a token's choices; `writes`: also into memory. By the block together.
TILEWRIGHT_DEVICE void place_token(const RouteArguments& a, int token, bool writes, int threads, FusedShared& shared) {
    const int total = a.tokens * a.choices, first = token * a.choices;
    sync_block();  // the last token's places have been read
    for (int choice = warp_index(); choice < a.choices; choice += threads / warp_threads) {
        const int index = first + choice;
        const int order = load_shared(shared.order[index / 4].values[index % 4]);
        const int below = count_below(order, total, shared), row = order < first_order(a.experts) ? below : -1;
        if (lane_index() != 0) continue;
        store_shared(shared.places[choice], row);
        if (writes) write_choice(a, index, row);
    }
    sync_block();
}

/// The same by one thread.
TILEWRIGHT_DEVICE int count_alone(int bound, int total, const FusedShared& shared) {
    int count = 0;
    for (int i = 0; i * 4 < total; ++i) {
        const IntQuad quad = load_shared(shared.order[i]);
#pragma unroll
        for (const int order : quad.values) count += order < bound ? 1 : 0;
    }
    return count;
}

/// Writes the ends of the experts, each by one warp of the grid. If choices are very few, so are the grid's warps, and
/// each end is counted by one thread.
TILEWRIGHT_DEVICE void write_ends(const RouteArguments& a, int threads, const FusedShared& shared) {
    if (a.ends == nullptr) return;
    const int warps = threads / warp_threads, total = a.tokens * a.choices;
    if (total <= 4 * warp_threads) {
        const int first = block_index() * threads + thread_index();
        for (int expert = first; expert < a.experts; expert += block_count() * threads) {
            const int end = count_alone(first_order(expert + 1), total, shared);
            store_global(reinterpret_cast<u32*>(a.ends) + expert, u32(end));
        }
        return;
    }
    for (int expert = block_index() * warps + warp_index(); expert < a.experts; expert += block_count() * warps) {
        const int end = count_below(first_order(expert + 1), total, shared);
        if (lane_index() == 0) store_global(reinterpret_cast<u32*>(a.ends) + expert, u32(end));
    }
}

/// use(choice, place) for each place of a token; without places, for the row itself if it exists. By a warp together.
template <bool routes, class Use>
TILEWRIGHT_DEVICE void for_each_place(const PlaceArguments& places, const RowGrid& grid,
                                      const ExistingArguments& existing, int token, const int* found, Use use) {
    if (!routes && places.data == nullptr) {
        if (row_exists(existing, grid, token)) use(0, place_of(grid, token));
        return;
    }
    if (!routes && !row_exists(existing, grid, token)) return;
    for (int first = 0; first < places.choices; first += warp_threads) {
        const int choice = first + lane_index();
        int row = -1;
        if (choice < places.choices) {
            row = routes ? load_shared(found[choice])
                         : load_global(places.data + token * places.token_stride + choice * places.choice_stride);
        }
        for (u32 left = ballot(row >= 0 && row < places.rows); left != 0; left &= left - 1) {
            const int lane = lowest_bit(left);
            use(first + lane, RowPlace{.group = 0, .row = from_lane(row, lane)});
        }
    }
}

}  // namespace tilewright::hopper
