// Row indices in blocks of rows of one group (GroupSizes::alignment). The schedule reads only the first index of a
// block, and this file compares the others with it. Rows of two groups in a block are therefore reported, and never
// multiplied by the first row's group.
#pragma once

#include "hopper/schedule/group_sizes.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// The group of a row. A negative value means no group.
TILEWRIGHT_DEVICE int group_of_row(const GroupSizes& sizes, int groups, u32 row) {
    const i64 at = row * sizes.row_stride;
    const i64 group = sizes.is_64_bit ? load_global(static_cast<const i64*>(sizes.data) + at)
                                      : load_global(static_cast<const int*>(sizes.data) + at);
    return group >= 0 && group < groups ? int(group) : -1;
}

TILEWRIGHT_DEVICE bool are_in_blocks(const GroupSizes& sizes) {
    return sizes.kind == SizeKind::indices && sizes.alignment > 1;
}

/// Whether all rows from `begin` to `end` have this group or none. A lane loads `at_once` indices at once.
template <class Index, int at_once>
TILEWRIGHT_DEVICE bool have_one_group(const GroupSizes& sizes, int groups, int group, int begin, int end) {
    bool differs = false;
#pragma unroll 1
    for (int left = end - begin - lane_index(); left > 0; left -= at_once * warp_threads) {
        const Index* const from = static_cast<const Index*>(sizes.data) + (end - left) * sizes.row_stride;
        Index others[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const int further = i * warp_threads;
            others[i] = further < left ? load_global(from + further * sizes.row_stride) : group;
        }
#pragma unroll
        for (Index other : others) differs = differs || (other != group && other >= 0 && other < groups);
    }
    return ballot(differs) == 0;
}

/// Whether all rows of a tile have one group, as its block promises.
template <Design design>
TILEWRIGHT_DEVICE bool has_one_group(const Arguments& arguments, const WorkTileOf<design>& work) {
    const GroupSizes& sizes = arguments.sizes;
    if (!are_in_blocks(sizes)) return true;
    constexpr int at_once = design.shape.warpgroups > 2 ? 2 : 4;  // limited by the scheduler's registers
    const int end = min(work.row + design.d_rows, work.row_end);
    return sizes.is_64_bit ? have_one_group<i64, at_once>(sizes, arguments.batch, work.group, work.row, end)
                           : have_one_group<int, at_once>(sizes, arguments.batch, work.group, work.row, end);
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
