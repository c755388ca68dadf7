// SwiGLU, or its gradient, of the numbers that a lane loads.
#pragma once

#include "formats/swiglu.h"
#include "hopper/quantize/numbers.h"
#include "hopper/quantize/shared.h"

namespace tilewright::hopper {

/// The inputs of 16 features of h of a token, as they are in memory. `halves`: the gates and then the ups, or both
/// interleaved.
template <Quantizer q>
struct Activated {
    static constexpr bool is_gradient = q.formula == Formula::swiglu_gradient;
    static constexpr int count = is_gradient && q.interleaved ? lane_features / 2 : lane_features;
    static constexpr int words = q.source == Number::f32 ? count : count / 2;
    u32 halves[2 * words];
    u32 gradient[words];
};

/// The factor of h of a token.
TILEWRIGHT_DEVICE float h_factor(const QuantizeArguments& arguments, int token) {
    return arguments.h_factors == nullptr ? 1.0F : load_global(arguments.h_factors + token * arguments.h_factor_stride);
}

/// Whether the features of h from this one on are gradients of up.
template <Quantizer q>
TILEWRIGHT_DEVICE bool are_ups(const QuantizeArguments& arguments, int feature) {
    return q.formula == Formula::swiglu_gradient && !q.interleaved && !q.paired && feature >= arguments.features / 2;
}

/// Loads a lane's features. Their number and half of it are multiples of 16.
template <Quantizer q>
TILEWRIGHT_DEVICE void load_activated(const QuantizeArguments& arguments, int group, int token, int feature,
                                      Activated<q>& to) {
    using Words = u32(&)[Activated<q>::words];
    const i64 row = row_of(arguments.x, group, token);
    int first = feature;
    if constexpr (Activated<q>::is_gradient) {
        if (q.interleaved) first = feature / 2;
        if (are_ups<q>(arguments, feature)) first = feature - arguments.features / 2;
        load_words<q>(arguments.gradient, row_of(arguments.gradient, group, token) + first, to.gradient);
    }
    if constexpr (q.interleaved) {
        load_words<q>(arguments.x, row + 2 * first, to.halves);
    } else {
        load_words<q>(arguments.x, row + first, reinterpret_cast<Words>(to.halves));
        const i64 up = row_of(arguments.up, group, token) + first;
        load_words<q>(arguments.up, up, reinterpret_cast<Words>(to.halves[Activated<q>::words]));
    }
}

template <Quantizer q, bool ups>
TILEWRIGHT_DEVICE void activate(const Activated<q>& from, const formats::SwiGluRule& rule, float factor,
                                u32 (&h)[lane_features]) {
    constexpr int count = Activated<q>::count;
    const auto store = [&](int i, float number) { h[i] = __builtin_bit_cast(u32, number * factor); };
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const float gate = number_of<q>(from.halves, q.interleaved ? 2 * i : i);
        const float up = number_of<q>(from.halves, q.interleaved ? 2 * i + 1 : count + i);
        if constexpr (!Activated<q>::is_gradient) {
            store(i, formats::swiglu(gate, up, rule));
            continue;
        }
        const float gradient = number_of<q>(from.gradient, i);
        if constexpr (q.interleaved) {
            const formats::SwiGluGradient both = formats::swiglu_gradient(gate, up, gradient, rule);
            store(2 * i, both.gate);
            store(2 * i + 1, both.up);
        } else {
            store(i, ups ? formats::up_gradient(gate, up, gradient, rule)
                         : formats::gate_gradient(gate, up, gradient, rule));
        }
    }
}

/// Computes the j-th token's gates; the ups go to shared memory.
template <Quantizer q>
TILEWRIGHT_DEVICE void activate_pairs(const Activated<q>& from, const formats::SwiGluRule& rule, float factor, int j,
                                      u32 (&h)[lane_features]) {
    auto& shared = shared_memory<PairedShared>();
#pragma unroll
    for (int quad = 0; quad < lane_features / 4; ++quad) {
        Quad ups;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int at = quad * 4 + i;
            const formats::SwiGluGradient both =
                formats::swiglu_gradient(number_of<q>(from.halves, at), number_of<q>(from.halves, lane_features + at),
                                         number_of<q>(from.gradient, at), rule);
            h[at] = __builtin_bit_cast(u32, both.gate * factor);
            ups.values[i] = both.up * factor;
        }
        store_shared(shared.ups[j * (lane_features / 4) + quad][thread_index()], ups);
    }
}

/// Computes some tokens. Most rules have no limit, and then alpha is 1, which saves a fifth of the instructions.
template <Quantizer q, bool ups, int count>
TILEWRIGHT_DEVICE void activate(const QuantizeArguments& arguments, const Activated<q> (&from)[count], int first,
                                const float (&factors)[count], Numbers<q>& h) {
    const auto activate_one = [&](int j, const formats::SwiGluRule& rule) {
        if constexpr (q.paired) {
            activate_pairs(from[j], rule, factors[j], first + j, h.held[first + j]);
        } else {
            activate<q, ups>(from[j], rule, factors[j], h.held[first + j]);
        }
    };
    const formats::SwiGluRule any{.alpha = arguments.alpha, .beta = arguments.beta, .limit = arguments.limit};
    const formats::SwiGluRule usual{.alpha = 1, .beta = arguments.beta, .limit = 0, .has_limit = false};
    if (any.alpha == 1 && any.limit == __builtin_bit_cast(float, 0x7F80'0000U)) {
#pragma unroll
        for (int j = 0; j < count; ++j) activate_one(j, usual);
    } else {
#pragma unroll
        for (int j = 0; j < count; ++j) activate_one(j, any);
    }
}

/// Sets the features of tokens that do not exist to 0. `has(j)`: whether the j-th token exists.
template <Quantizer q, class Has>
TILEWRIGHT_DEVICE void clear_missing(Has has, Numbers<q>& h) {
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        if (has(j)) continue;
#pragma unroll
        for (int i = 0; i < lane_features; ++i) h.held[j][i] = 0;
    }
}

/// `whole`: all tokens exist.
template <Quantizer q, class Has>
TILEWRIGHT_DEVICE void load_activated(const QuantizeArguments& arguments, int group, int token, int feature, bool whole,
                                      Has has, Numbers<q>& h) {
    // Each lane loads the factor of the token that it owns, for all 8 lanes that have the token.
    const float own_factor = h_factor(arguments, min(token + own_token(), arguments.tokens - 1));
    constexpr int together = q.source == Number::f32 ? 1 : q.paired ? 2 : lane_tokens;  // as many as the registers hold
#pragma unroll
    for (int first = 0; first < lane_tokens; first += together) {
        Activated<q> from[together];
        const auto load = [&](int j) { load_activated<q>(arguments, group, token + first + j, feature, from[j]); };
        if (whole) {
#pragma unroll
            for (int j = 0; j < together; ++j) load(j);
        } else {
#pragma unroll
            for (int j = 0; j < together; ++j) {
                from[j] = {};
                if (has(first + j)) load(j);
            }
        }
        float factors[together];
#pragma unroll
        for (int j = 0; j < together; ++j) factors[j] = from_lane(own_factor, owner_of(first + j));
        if (are_ups<q>(arguments, feature)) {
            activate<q, true>(arguments, from, first, factors, h);
        } else {
            activate<q, false>(arguments, from, first, factors, h);
        }
    }
    if (!whole) clear_missing(has, h);
}

/// Loads the ups of the gates that were loaded earlier.
template <Quantizer q, class Has>
TILEWRIGHT_DEVICE void load_ups(Has has, Numbers<q>& h) {
    const auto& shared = shared_memory<PairedShared>();
#pragma unroll
    for (int place = 0; place < lane_tokens * lane_features / 4; ++place) {
        const Quad ups = load_shared(shared.ups[place][thread_index()]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            h.held[place / 4][place % 4 * 4 + i] = __builtin_bit_cast(u32, ups.values[i]);
        }
    }
    clear_missing(has, h);
}

}  // namespace tilewright::hopper
