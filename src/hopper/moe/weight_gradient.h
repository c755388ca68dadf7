// The gradient of the weights of choices. It is the dot product of h, a unit's result, and the gradient of h. Training
// keeps only gate and up, so h is computed again. A warp computes a choice in the order of moe/weight_gradient.cpp.
// Lanes add their features one by one, then pairs of lanes add their sums.
#pragma once

#include "hopper/moe/unit_numbers.h"

namespace tilewright::hopper {

/// The lane's sum of the products of a row.
template <formats::Unit unit>
TILEWRIGHT_DEVICE float dot_of_lane(const UnitArguments& a, int row) {
    float sum = 0;
    for (int feature = lane_index() * unit_features; feature < a.features; feature += warp_threads * unit_features) {
        UnitNumbers numbers;
        load_unit(a, row, feature, numbers);
#pragma unroll
        for (int i = 0; i < unit_features; ++i) {
            if (feature + i >= a.features) continue;
            sum = fma(formats::gated<unit>(numbers.gates[i], numbers.ups[i], a.rule), numbers.gradients[i], sum);
        }
    }
    return sum;
}

template <int threads>
__global__ void __launch_bounds__(threads, 3) weight_gradient(const __grid_constant__ WeightGradientArguments a) {
    const i64 index = i64(block_index()) * (threads / warp_threads) + warp_index();
    if (index >= i64(a.tokens) * a.choices) return;
    const int token = int(index / a.choices), choice = int(index % a.choices);
    const int row = load_global(a.places.data + token * a.places.token_stride + choice * a.places.choice_stride);
    const bool exists = row >= 0 && row < a.places.rows;
    float sum = 0;
    if (exists) with_unit(a.of.unit, [&]<formats::Unit unit>() { sum = dot_of_lane<unit>(a.of, row); });
#pragma unroll
    for (int step = warp_threads / 2; step > 0; step /= 2) sum += from_lane(sum, lane_index() ^ step);
    if (lane_index() != 0) return;
    float* const out = a.out + token * a.out_token_stride + choice * a.out_choice_stride;
    store_global(reinterpret_cast<u32*>(out), f32_of(sum));
}

}  // namespace tilewright::hopper
