// The gates, ups and gradients of h that a lane has of a row. The unit and the form of the rows are data, so that a
// kernel serves all of them.
#pragma once

#include "hopper/moe/numbers.h"

namespace tilewright::hopper {

/// Features of a lane that are adjacent in memory.
struct UnitNumbers {
    float gates[unit_features];
    float ups[unit_features];
    float gradients[unit_features];
};

inline constexpr Quantizer bf16_numbers{.source = Number::bf16};
using UnitRun = u32[unit_features / 2];

/// 8 numbers of a row; 0 for those that do not exist.
TILEWRIGHT_DEVICE void load_run(const SourceMatrix& from, i64 first, int count, bool vectors, UnitRun& to) {
    if (vectors) return load_words<bf16_numbers>(from, first, to);
#pragma unroll
    for (int i = 0; i < unit_features; ++i) {
        const u32 code = i < count ? load_global(static_cast<const u16*>(from.data) + first + i) : 0U;
        to[i / 2] = i % 2 == 0 ? code : to[i / 2] | code << 16;
    }
}

TILEWRIGHT_DEVICE void load_unit(const UnitArguments& a, int row, int feature, UnitNumbers& to) {
    UnitRun first, second = {}, gradients;
    const bool alternate = a.up == 1;
    const int count = a.features - feature;
    const i64 gates = row * a.gate_up.token_stride + feature * (alternate ? 2 : 1);
    load_run(a.gate_up, gates, alternate ? 2 * count : count, a.vectors, first);
    if (alternate) {
        load_run(a.gate_up, gates + unit_features, 2 * count - unit_features, a.vectors, second);
    } else if (a.up != 0) {
        load_run(a.gate_up, gates + a.up, count, a.vectors, second);
    }
    load_run(a.gradient, row * a.gradient.token_stride + feature, count, a.vectors, gradients);
#pragma unroll
    for (int i = 0; i < unit_features; ++i) {
        const float low = half<bf16_numbers>(i < 4 ? first[i] : second[i - 4], 0);
        const float high = half<bf16_numbers>(i < 4 ? first[i] : second[i - 4], 1);
        to.gates[i] = alternate ? low : half<bf16_numbers>(first[i / 2], i % 2);
        to.ups[i] = alternate ? high : half<bf16_numbers>(second[i / 2], i % 2);
        to.gradients[i] = half<bf16_numbers>(gradients[i / 2], i % 2);
    }
}

/// Calls run.operator()<unit>().
template <class Run>
TILEWRIGHT_DEVICE void with_unit(formats::Unit unit, Run run) {
    switch (unit) {
        case formats::Unit::situ: return run.template operator()<formats::Unit::situ>();
        case formats::Unit::geglu: return run.template operator()<formats::Unit::geglu>();
        case formats::Unit::relu_squared: return run.template operator()<formats::Unit::relu_squared>();
        default: return run.template operator()<formats::Unit::swiglu>();
    }
}

}  // namespace tilewright::hopper
