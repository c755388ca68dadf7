// Group sizes in memory become pieces, some rows of A against one group of B each: 32 at a time, one for each lane of a
// warp. Sizes are never trusted: what they say is clamped into the rows that there are, as src/problem/geometry.cpp
// does.
#pragma once

#include "hopper/ptx.h"

namespace tilewright::hopper {

struct RowPiece {
    int begin;
    int end;
    int group;
};

TILEWRIGHT_DEVICE i64 size_at(const GroupSizes& sizes, int index) {
    const i64 at = index * sizes.stride;
    if (sizes.is_64_bit) return load_global(static_cast<const i64*>(sizes.data) + at);
    return load_global(static_cast<const int*>(sizes.data) + at);
}

/// Of this lane and all before it.
TILEWRIGHT_DEVICE int sum_of_lanes(int value) {
    const int lane = lane_index();
#pragma unroll
    for (int step = 1; step < warp_threads; step *= 2) {
        const int before = from_lane(value, lane - step);
        if (lane >= step) value += before;
    }
    return value;
}

TILEWRIGHT_DEVICE int largest_of_lanes(int value) {
    const int lane = lane_index();
#pragma unroll
    for (int step = 1; step < warp_threads; step *= 2) {
        const int before = from_lane(value, lane - step);
        if (lane >= step && before > value) value = before;
    }
    return value;
}

/// Runs of equal indices, in ascending order.
class IndexRuns {
public:
    /// Runs are cut after `longest` rows, so that work on one begins before its end is found.
    TILEWRIGHT_DEVICE IndexRuns(const GroupSizes& sizes, int groups, int rows, int longest)
        : sizes_(sizes), groups_(groups), rows_(rows), longest_(longest) {}

    /// For each lane a run, often of no rows. False: all rows have been seen.
    TILEWRIGHT_DEVICE bool next(RowPiece& run) {
        while (true) {
            if (last_ >= 0 && row_ - begin_ > longest_) {
                run = {.begin = begin_, .end = lane_index() == 0 ? begin_ + longest_ : begin_, .group = last_};
                begin_ += longest_;
                return true;
            }
            if (row_ > rows_) return false;  // behind the last row, the last run has ended
            if (row_ % rows_at_once == 0 && goes_on()) {
                row_ += rows_at_once;
                continue;
            }
            const int lane = lane_index(), begin = row_, row = begin + lane, open = last_;
            const int index = take_index();
            const int left = from_lane(index, lane - 1), before = lane == 0 ? open : left;
            const bool ends = row <= rows_ && index != before;
            const u32 ending = ballot(ends);
            last_ = from_lane(index, warp_threads - 1);
            if (ending != 0) {
                const u32 earlier = ending & ((1U << lane) - 1);
                run = {.begin = earlier != 0 ? begin + highest_bit(earlier) : begin_, .end = row, .group = before};
                if (!ends || before < 0) run.end = run.begin;
                begin_ = begin + highest_bit(ending);
                return true;
            }
        }
    }

private:
    static constexpr int ahead = 4;  // rows that a lane reads at once
    static constexpr int rows_at_once = ahead * warp_threads;
    static constexpr int no_group = -1;  // any index out of range
    static constexpr int behind = -2;    // the last row

    TILEWRIGHT_DEVICE int index_of(int row) const {
        if (row >= rows_) return behind;
        const i64 index = size_at(sizes_, row);
        return index >= 0 && index < groups_ ? int(index) : no_group;
    }

    TILEWRIGHT_DEVICE void read(int (&to)[ahead], int row) const {
        const int lane = lane_index();
#pragma unroll
        for (int i = 0; i < ahead; ++i) to[i] = index_of(row + i * warp_threads + lane);
    }

    /// Brings the next rows. Whether they all belong to the run that is open.
    TILEWRIGHT_DEVICE bool goes_on() {
        if (row_ == 0) read(later_, 0);
        bool differs = false;
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            now_[i] = later_[i];
            differs = differs || now_[i] != last_;
        }
        read(later_, row_ + rows_at_once);
        return ballot(differs) == 0;
    }

    /// Of this lane's row among the 32 from row_ on, which advances.
    TILEWRIGHT_DEVICE int take_index() {
        const int place = row_ % rows_at_once / warp_threads;
        int index = now_[0];
#pragma unroll
        for (int i = 1; i < ahead; ++i) index = place == i ? now_[i] : index;
        row_ += warp_threads;
        return index;
    }

    const GroupSizes& sizes_;
    int groups_;
    int rows_;
    int longest_;
    int row_ = 0;          // the first that was not looked at
    int begin_ = 0;        // of the run that is open,
    int last_ = no_group;  // and its group
    int now_[ahead] = {};
    int later_[ahead] = {};
};

/// The pieces of one problem, whatever its sizes say.
class GroupPieces {
public:
    TILEWRIGHT_DEVICE GroupPieces(const GroupSizes& sizes, int groups, int rows, int longest)
        : sizes_(sizes), groups_(groups), rows_(rows), runs_(sizes, groups, rows, longest) {}

    /// For each lane a piece, or no rows. False: there are no more.
    TILEWRIGHT_DEVICE bool next(RowPiece& piece) {
        if (sizes_.kind == SizeKind::indices) return runs_.next(piece);
        if (group_ >= groups_) return false;
        const int group = group_ + lane_index();
        const int size = group < groups_ ? clamped(size_at(sizes_, group)) : 0;
        piece = {.begin = 0, .end = size, .group = group};
        if (sizes_.kind == SizeKind::ends) begin_where_others_end(piece);
        group_ += warp_threads;
        return true;
    }

private:
    TILEWRIGHT_DEVICE int clamped(i64 size) const { return size < 0 ? 0 : size < rows_ ? int(size) : rows_; }

    /// The next multiple, or behind the last row if that comes first.
    TILEWRIGHT_DEVICE int aligned(int row) const {
        const int rest = row % sizes_.alignment, missing = rest == 0 ? 0 : sizes_.alignment - rest;
        return missing <= rows_ - row ? row + missing : rows_;
    }

    TILEWRIGHT_DEVICE void begin_where_others_end(RowPiece& piece) {
        const int furthest = largest_of_lanes(aligned(piece.end));
        const int before = from_lane(furthest, lane_index() - 1);
        piece.begin = lane_index() > 0 && before > begin_ ? before : begin_;
        if (piece.end < piece.begin) piece.end = piece.begin;
        const int last = from_lane(furthest, warp_threads - 1);
        begin_ = last > begin_ ? last : begin_;
    }

    const GroupSizes& sizes_;
    int groups_;
    int rows_;
    int group_ = 0;  // of the next piece
    int begin_ = 0;  // where it begins
    IndexRuns runs_;
};

}  // namespace tilewright::hopper
