// The rows of the first product: each token is read once, quantized once and stored to the rows of its choices. With
// factors each of its copies is quantized separately.
#pragma once

#include "hopper/moe/fused_route.h"

namespace tilewright::hopper {

/// A token. `step`: features that the block holds at once.
template <RowSpec spec>
struct TokenWriter {
    const PermuteArguments& a;
    const RowPart& part;
    int step;
    RowNumbers<spec> numbers{};
    LaneOutput<spec> out{};

    TILEWRIGHT_DEVICE auto load() const {
        return [this](int feature, RowNumbers<spec>& to) {
            const RowPlace place = place_of(a.grid, part.row);
            if constexpr (spec.from_ranks) {
                SourceMatrix x = a.x;
                x.data = at_rank(a.ranks, place.group, x.data);
                load_numbers<spec>(x, {.group = 0, .row = place.row}, feature, part.end, to);
            } else {
                load_numbers<spec>(a.x, place, feature, part.end, to);
            }
        };
    }
    TILEWRIGHT_DEVICE void load_first() { load()(part.feature, numbers); }
    TILEWRIGHT_DEVICE void quantize(int choice) {
        numbers.factor = 1;
        if constexpr (spec.has_factors) numbers.factor = factor_at(a.factors, place_of(a.grid, part.row), choice);
        float scale = 1;
        if constexpr (spec.output == RowOutput::scaled_rows) scale = row_scale(numbers, part, step, load());
        out = output_of(numbers, scale);
    }
    TILEWRIGHT_DEVICE void store(const RowPlace& place) const {
        store_row(a.to, place, part, step, out, numbers.factor, load());
    }
};

/// By the block together.
template <RowSpec spec>
TILEWRIGHT_DEVICE void write_token(const PermuteArguments& a, const RowPart& part, int step, const int* found) {
    TokenWriter<spec> token{.a = a, .part = part, .step = step};
    bool is_loaded = spec.routes, is_quantized = false;
    if constexpr (spec.routes) token.load_first();
    for_each_place<spec.routes>(a.places, a.grid, a.existing, part.row, found, [&](int choice, const RowPlace& place) {
        if (!is_loaded) token.load_first();
        if (spec.has_factors || !is_quantized) token.quantize(choice);
        is_loaded = is_quantized = true;
        token.store(place);
    });
    if constexpr (!has_scales(spec.output) && !spec.routes) {
        if (a.clears && !is_loaded) clear_row_part<spec>(a.to, place_of(a.grid, part.row), part);
    }
}

template <RowSpec spec>
TILEWRIGHT_DEVICE RowPart token_part(const PermuteArguments& a, int at) {
    const RowPart part = part_of(a.grid, at, lane_features);
    return spec.from_ranks ? in_turn(part, a.ranks) : part;
}

/// Features of a block's threads.
TILEWRIGHT_DEVICE int row_step() { return block_threads() * lane_features; }

template <RowSpec spec>
__global__ void __launch_bounds__(most_threads(spec), blocks_per_sm(spec))
    permute(const __grid_constant__ PermuteArguments a) {
    wait_for_earlier_kernels();
    let_next_kernel_start();
    if constexpr (spec.announces) announce_choices(a.announce);
    if constexpr (spec.routes) {
        auto& shared = shared_memory<FusedShared>();
        if constexpr (spec.meets) meet_ranks(a.meet);
        order_choices<spec.meets>(a.route, block_threads(), shared);
        for (int at = block_index(); at < a.grid.rows * a.grid.parts; at += block_count()) {
            const RowPart part = token_part<spec>(a, at);
            place_token(a.route, part.row, part.first, block_threads(), shared);
            write_token<spec>(a, part, row_step(), shared.places);
        }
        write_ends(a.route, block_threads(), shared);
    } else {
        for (int at = block_index(); at < a.grid.rows * a.grid.parts; at += block_count()) {
            write_token<spec>(a, token_part<spec>(a, at), row_step(), nullptr);
        }
    }
}

}  // namespace tilewright::hopper
