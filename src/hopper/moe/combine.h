// The sum of the rows of each token, in f32: the addend, then weight times row in the order of the choices, each
// rounded once.
#pragma once

#include "hopper/moe/exchange.h"
#include "hopper/moe/output.h"

namespace tilewright::hopper {

/// Columns of a lane.
using CombineSum = float[combine_features];
template <CombineSpec spec>
using CombineRow = u32[spec.rows == Number::f32 ? combine_features : combine_features / 2];

template <CombineSpec spec>
TILEWRIGHT_DEVICE void load_y(const CombineArguments& a, RowPlace place, const RowPart& part, CombineRow<spec>& to) {
    SourceMatrix y = a.y;
    if constexpr (spec.from_ranks) {
        const int rank = int(u32(place.row) / u32(a.y_ranks.room));
        y.data = at_rank(a.y_ranks, rank, y.data);
        place.row -= rank * a.y_ranks.room;
    }
    const i64 first = row_of(y, place.group, place.row) + part.feature;
    if constexpr (spec.vectors) {
        load_row_words<spec.meets, Quantizer{.source = spec.rows}>(y, first, to);
        return;
    }
#pragma unroll
    for (int i = 0; i < combine_features; ++i) {
        const bool exists = part.feature + i < part.end;
        if constexpr (spec.rows == Number::f32) {
            to[i] = exists ? load_element<spec.meets>(static_cast<const u32*>(y.data) + first + i) : 0U;
        } else {
            const u32 code = exists ? load_element<spec.meets>(static_cast<const u16*>(y.data) + first + i) : 0U;
            to[i / 2] = i % 2 == 0 ? code : to[i / 2] | code << 16;
        }
    }
}

template <CombineSpec spec>
TILEWRIGHT_DEVICE void add_row(float weight, const CombineRow<spec>& row, CombineSum& sum) {
#pragma unroll
    for (int i = 0; i < combine_features; ++i) {
        sum[i] = fma(weight, number_of<Quantizer{.source = spec.rows}>(row, i), sum[i]);
    }
}

/// 8 numbers of the addend. It may be the memory of the result, so that these are ordinary loads.
template <Number format, bool vectors>
TILEWRIGHT_DEVICE void load_addend(const void* data, i64 first, int count, CombineSum& sum) {
    constexpr bool is_wide = format == Number::f32;
    constexpr Quantizer q{.source = format};
    u32 words[is_wide ? combine_features : combine_features / 2] = {};
    if constexpr (vectors) {
        const u8* const from = static_cast<const u8*>(data) + first * (is_wide ? 4 : 2);
#pragma unroll
        for (int i = 0; i < int(sizeof(words) / 16); ++i) {
            const IntQuad quad = reinterpret_cast<const IntQuad*>(from)[i];
#pragma unroll
            for (int j = 0; j < 4; ++j) words[i * 4 + j] = u32(quad.values[j]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < combine_features; ++i) {
            if (i >= count) continue;
            if constexpr (is_wide) {
                words[i] = static_cast<const u32*>(data)[first + i];
            } else {
                words[i / 2] |= u32(static_cast<const u16*>(data)[first + i]) << i % 2 * 16;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < combine_features; ++i) sum[i] = number_of<q>(words, i);
}

template <CombineSpec spec>
TILEWRIGHT_DEVICE void begin_sum(const CombineArguments& a, const RowPlace& place, const RowPart& part,
                                 CombineSum& sum) {
#pragma unroll
    for (float& number : sum) number = 0;
    if (a.addend.data == nullptr || part.feature >= part.end) return;
    const i64 first = row_of(a.addend, place.group, place.row) + part.feature;
    const int count = part.end - part.feature;
    if (a.addend_format == Number::f32) {
        load_addend<Number::f32, spec.vectors>(a.addend.data, first, count, sum);
    } else if (a.addend_format == Number::bf16) {
        load_addend<Number::bf16, spec.vectors>(a.addend.data, first, count, sum);
    } else {
        load_addend<Number::f16, spec.vectors>(a.addend.data, first, count, sum);
    }
}

/// The row of y that a choice of a token has; -1: none.
template <CombineSpec spec>
TILEWRIGHT_DEVICE int row_of_choice(const CombineArguments& a, int token, int choice) {
    if constexpr (spec.meets) return found_part(a.meet, token, choice);
    return load_global(a.places.data + token * a.places.token_stride + choice * a.places.choice_stride);
}

/// A lane's choice of a token: its row, or -1, and its weight.
struct LaneChoice {
    int row = -1;
    float weight = 1;
};

template <CombineSpec spec>
TILEWRIGHT_DEVICE LaneChoice choice_of_lane(const CombineArguments& a, int token, int first) {
    const int choice = first + lane_index();
    if (choice >= a.places.choices) return {};
    return {.row = row_of_choice<spec>(a, token, choice),
            .weight = factor_at(a.weights, {.group = 0, .row = token}, choice)};
}

/// Adds the rows of a token's choices, several loads ahead. `of_first`: the first choices. Returns whether there were
/// any. By a warp together.
template <CombineSpec spec>
TILEWRIGHT_DEVICE bool add_choices(const CombineArguments& a, const RowPart& part, const LaneChoice& of_first,
                                   CombineSum& sum) {
    u32 any = 0;
    for (int first = 0; first < a.places.choices; first += warp_threads) {
        const auto [row, weight] = first == 0 ? of_first : choice_of_lane<spec>(a, part.row, first);
        u32 left = ballot(row >= 0 && row < a.places.rows);
        any |= left;
        while (left != 0) {
            constexpr int ahead = combine_rows(spec);
            CombineRow<spec> rows[ahead];
            u32 added = left;
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (left == 0) continue;
                const RowPlace place{.group = 0, .row = from_lane(row, lowest_bit(left))};
                if (part.feature < part.end) load_y<spec>(a, place, part, rows[i]);
                left &= left - 1;
            }
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (added == 0) continue;
                const float own = from_lane(weight, lowest_bit(added));
                if (part.feature < part.end) add_row<spec>(own, rows[i], sum);
                added &= added - 1;
            }
        }
    }
    return any != 0;
}

template <CombineSpec spec>
TILEWRIGHT_DEVICE void store_sum(const RowTarget& to, const RowPlace& place, const RowPart& part,
                                 const CombineSum& sum) {
    constexpr int bytes = spec.out == Number::f32 ? 4 : 2, words = combine_features * bytes / 4;
    if (part.feature >= part.end) return;
    u32 elements[words];
#pragma unroll
    for (int i = 0; i < words; ++i) {
        if constexpr (spec.out == Number::f32) {
            elements[i] = f32_of(sum[i]);
        } else {
            elements[i] =
                spec.out == Number::bf16 ? pack_bf16(sum[2 * i], sum[2 * i + 1]) : pack_f16(sum[2 * i], sum[2 * i + 1]);
        }
    }
    u8* const first = to.data + (place.group * to.group_stride + place.row * to.row_stride + part.feature) * bytes;
#pragma unroll
    for (int i = 0; i < (spec.vectors ? words : combine_features); i += spec.vectors ? 4 : 1) {
        if constexpr (spec.vectors) {
            const IntQuad quad{{int(elements[i]), int(elements[i + 1]), int(elements[i + 2]), int(elements[i + 3])}};
            store_global(reinterpret_cast<IntQuad*>(first) + i / 4, quad);
        } else if (part.feature + i < part.end) {
            if constexpr (spec.out == Number::f32) {
                store_global(reinterpret_cast<u32*>(first) + i, elements[i]);
            } else {
                store_global(reinterpret_cast<u16*>(first) + i, u16(elements[i / 2] >> i % 2 * 16));
            }
        }
    }
}

/// `of_first`: the token's first choices. By a warp together.
template <CombineSpec spec>
TILEWRIGHT_DEVICE void combine_row(const CombineArguments& a, const RowPart& part, const LaneChoice& of_first) {
    const RowPlace place = place_of(a.grid, part.row);
    CombineSum sum;
    if (spec.meets || a.places.data != nullptr) {
        begin_sum<spec>(a, place, part, sum);
        if (!add_choices<spec>(a, part, of_first, sum) && a.skips) return;
    } else {
        if (!row_exists(a.existing, a.grid, part.row)) return;
        begin_sum<spec>(a, place, part, sum);
        CombineRow<spec> row = {};
        if (part.feature < part.end) load_y<spec>(a, place, part, row);
        add_row<spec>(factor_at(a.weights, place, 0), row, sum);
    }
    if constexpr (spec.to_ranks) {
        RowTarget out = a.out;
        out.data = at_rank(a.out_ranks, place.group, out.data);
        store_sum<spec>(out, {.group = 0, .row = place.row}, part, sum);
    } else {
        store_sum<spec>(a.out, place, part, sum);
    }
}

template <CombineSpec spec>
__global__ void __launch_bounds__(combine_threads, combine_blocks) combine(const __grid_constant__ CombineArguments a) {
    constexpr bool of_ranks = spec.meets || spec.from_ranks || spec.to_ranks;
    const int parts = a.grid.rows * a.grid.parts;
    const auto part_at = [&](int at) {
        const RowPart part = part_of(a.grid, at, combine_features);
        return spec.to_ranks ? in_turn(part, a.out_ranks) : part;
    };
    const auto choices_at = [&](int at) {
        if (at >= parts || (!spec.meets && a.places.data == nullptr)) return LaneChoice{};
        return choice_of_lane<spec>(a, part_at(at).row, 0);
    };
    // The layer's first kernels wrote the places, and other callers do not overlap: kernels that still run are later.
    LaneChoice choices{};
    if constexpr (!of_ranks) choices = choices_at(block_index());
    wait_for_earlier_kernels();
    let_next_kernel_start();
    if constexpr (spec.meets) meet_ranks(a.meet);
    if constexpr (of_ranks) choices = choices_at(block_index());
    for (int at = block_index(); at < parts; at += block_count()) {
        const LaneChoice next = choices_at(at + block_count());  // they arrive while this row is added
        combine_row<spec>(a, part_at(at), choices);
        choices = next;
    }
}

}  // namespace tilewright::hopper
