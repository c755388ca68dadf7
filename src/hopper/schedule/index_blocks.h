// Row indices in blocks of rows of one group (GroupSizes::alignment). The schedule reads only the first index of a
// block. This file compares the others with it, while the kernel multiplies, and reports rows of another group. Their
// D is the product with the first row's group.
#pragma once

#include "hopper/schedule/group_sizes.h"

namespace tilewright::hopper {

/// The group of a row. A negative value means no group.
TILEWRIGHT_DEVICE int group_of_row(const GroupSizes& sizes, int groups, u32 row) {
    const i64 group = load_integer(sizes.data, sizes.is_64_bit, row * sizes.row_stride);
    return group >= 0 && group < groups ? int(group) : -1;
}

TILEWRIGHT_DEVICE bool are_in_blocks(const GroupSizes& sizes) {
    return sizes.kind == SizeKind::indices && sizes.alignment > 1;
}

/// Called by one warp of each block of the grid. Together they check all rows, including rows that no tile has.
TILEWRIGHT_DEVICE void report_mixed_rows(const Arguments& arguments) {
    const GroupSizes& sizes = arguments.sizes;
    if (!are_in_blocks(sizes)) return;
    const u32 rows = arguments.m, step = block_count() * warp_threads;
#pragma unroll 1
    for (u32 row = block_index() * warp_threads + lane_index(); row < rows; row += step) {
        const int group = group_of_row(sizes, arguments.batch, row);
        const int first = group_of_row(sizes, arguments.batch, row - row % u32(sizes.alignment));
        if (group >= 0 && group != first) {
            store_global(&arguments.report->mixed.word, MixedRow::pack(int(row), group, first));
        }
    }
}

}  // namespace tilewright::hopper
