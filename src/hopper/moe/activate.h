// h, the rows of the second product: the unit of gate and up, and its quantization.
#pragma once

#include "hopper/moe/output.h"

namespace tilewright::hopper {

/// By the block together. A lane whose row does not exist has no features. Lanes of one warp may have two rows.
template <RowSpec spec>
TILEWRIGHT_DEVICE void write_h(const ActivateArguments& a, RowPart part) {
    const RowPlace place = place_of(a.grid, part.row);
    const bool exists = part.row < a.grid.rows && row_exists(a.existing, a.grid, part.row);
    if constexpr (!has_scales(spec.output)) {
        if (!exists && a.clears && part.row < a.grid.rows) clear_row_part<spec>(a.to, place, part);
    }
    if (ballot(exists) == 0) return;
    if (!exists) part.end = 0;
    const float factor = exists ? factor_at(a.factors, place, 0) : 1;
    const auto load = [&](int feature, RowNumbers<spec>& to) {
        load_activated<spec>(a, place, feature, part.end, factor, to);
    };
    const int step = block_threads() * lane_features;
    RowNumbers<spec> numbers;
    numbers.factor = 1;
    load(part.feature, numbers);
    float scale = 1;
    if constexpr (spec.output == RowOutput::scaled_rows) scale = row_scale(numbers, part, step, load);
    store_row(a.to, place, part, step, output_of(numbers, scale), 1, load);
}

template <RowSpec spec>
__global__ void __launch_bounds__(most_threads(spec), blocks_per_sm(spec))
    activate(const __grid_constant__ ActivateArguments a) {
    wait_for_earlier_kernels();
    let_next_kernel_start();
    const bool several = a.grid.rows_per_block > 1;
    const int parts = several ? ceil_div(a.grid.rows, a.grid.rows_per_block) : a.grid.rows * a.grid.parts;
    for (int at = block_index(); at < parts; at += block_count()) {
        write_h<spec>(a, several ? row_of_thread(a.grid, at, lane_features) : part_of(a.grid, at, lane_features));
    }
}

}  // namespace tilewright::hopper
