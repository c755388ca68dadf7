// The rows of the first product: each token is read once, quantized once and stored to the rows of its choices. With
// factors each of its copies is quantized separately.
#pragma once

#include "hopper/moe/fused_route.h"

namespace tilewright::hopper {

/// A token. `step`: features that the block holds at once.
template <RowSpec spec>
struct TokenWriter {
    const PermuteArguments& a;
    int step;
    RowPart part{};
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

/// By the block together. `is_loaded`: the token has been. `found`: its places, if they are not in memory.
template <RowSpec spec>
TILEWRIGHT_DEVICE void write_token(TokenWriter<spec>& token, bool is_loaded, const int* found) {
    const PermuteArguments& a = token.a;
    const int row = token.part.row;
    bool is_quantized = false;
    for_each_place<spec.routes>(a.places, a.grid, a.existing, row, found, [&](int choice, const RowPlace& place) {
        if (!is_loaded) token.load_first();
        if (spec.has_factors || !is_quantized) token.quantize(choice);
        is_loaded = is_quantized = true;
        token.store(place);
    });
    if constexpr (!has_scales(spec.output) && !spec.routes) {
        if (a.clears && !is_loaded) clear_row_part<spec>(a.to, place_of(a.grid, row), token.part);
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
    const int parts = a.grid.rows * a.grid.parts;
    TokenWriter<spec> token{.a = a, .step = row_step()};
    if constexpr (spec.routes) {
        auto& shared = shared_memory<FusedShared>();
        if constexpr (spec.meets) meet_ranks(a.meet);
        // A token is loaded ahead of its places, and the first one ahead of all choices: they wait for memory together.
        const auto load = [&](int at) {
            if (at >= parts) return;
            token.part = token_part<spec>(a, at);
            token.load_first();
        };
        load(block_index());
        order_choices<spec.meets>(a.route, block_threads(), shared);
        for (int at = block_index(); at < parts; at += block_count()) {
            place_token(a.route, token.part.row, token.part.first, block_threads(), shared);
            write_token(token, true, shared.places);
            load(at + block_count());
        }
        write_ends(a.route, block_threads(), shared);
    } else {
        for (int at = block_index(); at < parts; at += block_count()) {
            token.part = token_part<spec>(a, at);
            write_token(token, false, nullptr);
        }
    }
}

}  // namespace tilewright::hopper
