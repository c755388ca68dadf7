// The gradient of the weights of choices. It is the dot product of h, a unit's result, and the gradient of h. Training
// keeps only gate and up, so h is computed again. A warp computes a choice in the order of moe/weight_gradient.cpp.
// Lanes add their features one by one, then pairs of lanes add their sums.
#pragma once

#include "hopper/moe/numbers.h"

namespace tilewright::hopper {

/// Features of a lane that are adjacent in memory.
struct UnitNumbers {
    float gates[dot_features];
    float ups[dot_features];
    float gradients[dot_features];
};

inline constexpr Quantizer bf16_numbers{.source = Number::bf16};
using DotRun = u32[dot_features / 2];

/// 8 numbers of a row; 0 for those that do not exist.
TILEWRIGHT_DEVICE void load_run(const SourceMatrix& from, i64 first, int count, bool vectors, DotRun& to) {
    if (vectors) return load_words<bf16_numbers>(from, first, to);
#pragma unroll
    for (int i = 0; i < dot_features; ++i) {
        const u32 code = i < count ? load_global(static_cast<const u16*>(from.data) + first + i) : 0U;
        to[i / 2] = i % 2 == 0 ? code : to[i / 2] | code << 16;
    }
}

TILEWRIGHT_DEVICE void load_unit(const WeightGradientArguments& a, int row, int feature, UnitNumbers& to) {
    DotRun first, second = {}, gradients;
    const bool alternate = a.up == 1;
    const int count = a.features - feature;
    const i64 gates = row * a.gate_up.token_stride + feature * (alternate ? 2 : 1);
    load_run(a.gate_up, gates, alternate ? 2 * count : count, a.vectors, first);
    if (alternate) {
        load_run(a.gate_up, gates + dot_features, 2 * count - dot_features, a.vectors, second);
    } else if (a.up != 0) {
        load_run(a.gate_up, gates + a.up, count, a.vectors, second);
    }
    load_run(a.gradient, row * a.gradient.token_stride + feature, count, a.vectors, gradients);
#pragma unroll
    for (int i = 0; i < dot_features; ++i) {
        const float low = half<bf16_numbers>(i < 4 ? first[i] : second[i - 4], 0);
        const float high = half<bf16_numbers>(i < 4 ? first[i] : second[i - 4], 1);
        to.gates[i] = alternate ? low : half<bf16_numbers>(first[i / 2], i % 2);
        to.ups[i] = alternate ? high : half<bf16_numbers>(second[i / 2], i % 2);
        to.gradients[i] = half<bf16_numbers>(gradients[i / 2], i % 2);
    }
}

/// The lane's sum of the products of a row.
template <formats::Unit unit>
TILEWRIGHT_DEVICE float dot_of_lane(const WeightGradientArguments& a, int row) {
    float sum = 0;
    for (int feature = lane_index() * dot_features; feature < a.features; feature += warp_threads * dot_features) {
        UnitNumbers numbers;
        load_unit(a, row, feature, numbers);
#pragma unroll
        for (int i = 0; i < dot_features; ++i) {
            if (feature + i >= a.features) continue;
            sum = fma(formats::gated<unit>(numbers.gates[i], numbers.ups[i], a.rule), numbers.gradients[i], sum);
        }
    }
    return sum;
}

TILEWRIGHT_DEVICE float dot_of_lane(const WeightGradientArguments& a, int row) {
    switch (a.unit) {
        case formats::Unit::situ: return dot_of_lane<formats::Unit::situ>(a, row);
        case formats::Unit::geglu: return dot_of_lane<formats::Unit::geglu>(a, row);
        case formats::Unit::relu_squared: return dot_of_lane<formats::Unit::relu_squared>(a, row);
        default: return dot_of_lane<formats::Unit::swiglu>(a, row);
    }
}

template <int threads>
__global__ void __launch_bounds__(threads, 3) weight_gradient(const __grid_constant__ WeightGradientArguments a) {
    const i64 index = i64(block_index()) * (threads / warp_threads) + warp_index();
    if (index >= i64(a.tokens) * a.choices) return;
    const int token = int(index / a.choices), choice = int(index % a.choices);
    const int row = load_global(a.places.data + token * a.places.token_stride + choice * a.places.choice_stride);
    const bool exists = row >= 0 && row < a.places.rows;
    float sum = exists ? dot_of_lane(a, row) : 0.0F;
#pragma unroll
    for (int step = warp_threads / 2; step > 0; step /= 2) sum += from_lane(sum, lane_index() ^ step);
    if (lane_index() != 0) return;
    float* const out = a.out + token * a.out_token_stride + choice * a.out_choice_stride;
    store_global(reinterpret_cast<u32*>(out), f32_of(sum));
}

}  // namespace tilewright::hopper
