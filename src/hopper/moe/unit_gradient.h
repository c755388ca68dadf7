// The gradient of gate_up of a unit, from the gradient of h. In f32 and not rounded, because a quantizer reads it.
#pragma once

#include "hopper/moe/output.h"
#include "hopper/moe/unit_numbers.h"

namespace tilewright::hopper {

/// Stores a run of adjacent numbers, `count` of which exist.
TILEWRIGHT_DEVICE void store_run(u32* to, const u32 (&run)[unit_features], int count, bool vectors) {
#pragma unroll
    for (int i = 0; i < unit_features; ++i) {
        if (vectors) {
            if (i % 4 != 0) continue;
            const IntQuad quad{{int(run[i]), int(run[i + 1]), int(run[i + 2]), int(run[i + 3])}};
            store_global(reinterpret_cast<IntQuad*>(to) + i / 4, quad);
        } else if (i < count) {
            store_global(to + i, run[i]);
        }
    }
}

template <formats::Unit unit>
TILEWRIGHT_DEVICE void write_gradient(const UnitGradientArguments& a, int row, int feature) {
    const UnitArguments& of = a.of;
    UnitNumbers numbers;
    load_unit(of, row, feature, numbers);
    u32 gates[unit_features], ups[unit_features];
#pragma unroll
    for (int i = 0; i < unit_features; ++i) {
        const formats::GatedGradient both =
            formats::gated_gradient<unit>(numbers.gates[i], numbers.ups[i], numbers.gradients[i], of.rule);
        gates[i] = f32_of(both.gate);
        ups[i] = f32_of(both.up);
    }
    const int count = of.features - feature;
    u32* const to = reinterpret_cast<u32*>(a.to.data) + row * a.to.row_stride;
    if (of.up != 1) {
        store_run(to + feature, gates, count, of.vectors);
        if (of.up != 0) store_run(to + of.up + feature, ups, count, of.vectors);
        return;
    }
    u32 runs[2][unit_features];
#pragma unroll
    for (int i = 0; i < unit_features; ++i) {
        runs[i * 2 / unit_features][i * 2 % unit_features] = gates[i];
        runs[i * 2 / unit_features][i * 2 % unit_features + 1] = ups[i];
    }
    store_run(to + 2 * feature, runs[0], 2 * count, of.vectors);
    store_run(to + 2 * feature + unit_features, runs[1], 2 * count - unit_features, of.vectors);
}

template <int threads>
__global__ void __launch_bounds__(threads, 3) unit_gradient(const __grid_constant__ UnitGradientArguments a) {
    wait_for_earlier_kernels();
    let_next_kernel_start();
    for (int at = block_index(); at < a.grid.rows * a.grid.parts; at += block_count()) {
        const RowPart part = part_of(a.grid, at, unit_features);
        if (!row_exists(a.existing, a.grid, part.row) || part.feature >= part.end) continue;
        with_unit(a.of.unit, [&]<formats::Unit unit>() { write_gradient<unit>(a, part.row, part.feature); });
    }
}

}  // namespace tilewright::hopper
