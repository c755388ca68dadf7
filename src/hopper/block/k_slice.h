// The k-blocks of each tile that a block multiplies: all of them, or with split-K its slice. (k-grouped:
// schedule/k_grouped.h.)
#pragma once

#include "hopper/arguments.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

struct KSlice {
    int begin;
    int count;
};

template <Design design>
TILEWRIGHT_DEVICE KSlice k_slice_of(const Arguments& arguments) {
    const int k_blocks = (arguments.k + design.stage_k - 1) / design.stage_k;
    if constexpr (design.k_slices == 1) return {.begin = 0, .count = k_blocks};
    const int begin = k_slice_begin(design, k_blocks, block_rank());
    return {.begin = begin, .count = k_slice_begin(design, k_blocks, block_rank() + 1) - begin};
}

}  // namespace tilewright::hopper
