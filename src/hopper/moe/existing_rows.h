// Whether a row of a matrix exists, from the ends or the counts of groups in the device's memory. They are never
// trusted: they are clamped to the rows of the matrix, as in src/problem/geometry.cpp.
#pragma once

#include "base/math.h"
#include "hopper/moe/arguments.h"
#include "hopper/ptx/integers.h"
#include "hopper/ptx/ptx_numbers.h"

namespace tilewright::hopper {

/// A row in its group.
struct RowPlace {
    int group;
    int row;
};

TILEWRIGHT_DEVICE RowPlace place_of(const RowGrid& grid, int row) {
    const int group = row < grid.room ? 0 : int(u32(row) / u32(grid.room));
    return {.group = group, .row = row - group * grid.room};
}

/// An address of this rank, at its place in the memory of another rank.
template <class Data>
TILEWRIGHT_DEVICE Data* at_rank(const RankShifts& ranks, int rank, Data* here) {
    const i64 shift = ranks.stride != 0 ? ranks.bytes[0] + rank * ranks.stride : ranks.bytes[rank];
    return reinterpret_cast<Data*>(reinterpret_cast<u64>(here) + u64(shift));
}

TILEWRIGHT_DEVICE i64 integer_at(const IntegerList& list, int index) {
    return load_integer(list.data, list.is_wide, index * list.stride);
}

/// Whether a group has the row. It searches 32 groups at a time, whose beginnings are maxima of earlier ends. By a warp
/// together.
TILEWRIGHT_DEVICE bool is_in_a_group(const ExistingArguments& existing, int row, int rows) {
    const int lane = lane_index();
    int begin = 0;  // of the groups from here on
    for (int first = 0; first < existing.ends.count && begin <= row; first += warp_threads) {
        const int group = first + lane;
        const int end = group < existing.ends.count ? clamped(integer_at(existing.ends, group), rows) : 0;
        const int own_begin = begin_after_earlier(next_aligned(end, existing.alignment, rows), begin);
        if (ballot(own_begin <= row && row < end) != 0) return true;
    }
    return false;
}

/// By a warp together, for the same row.
TILEWRIGHT_DEVICE bool row_exists(const ExistingArguments& existing, const RowGrid& grid, int row) {
    if (existing.counts.data != nullptr) {
        const RowPlace place = place_of(grid, row);
        return place.row < clamped(integer_at(existing.counts, place.group), grid.room);
    }
    if (existing.ends.data == nullptr) return true;
    if (existing.sorted) return row < clamped(integer_at(existing.ends, existing.ends.count - 1), grid.rows);
    return is_in_a_group(existing, row, grid.rows);
}

}  // namespace tilewright::hopper
