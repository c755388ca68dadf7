// The tiles of k-grouped problems, whose sizes only the device knows. D has the tiles of a batch. One warp finds the k
// of each group and passes it to the other roles of its block (scheduler.h). If groups begin anywhere, a tile also
// needs the place of the group's values and of its scales.
#pragma once

#include "base/math.h"
#include "hopper/arguments.h"
#include "hopper/block/ring.h"
#include "hopper/schedule/dense.h"
#include "hopper/schedule/group_sizes.h"

namespace tilewright::hopper {

/// The k-blocks of a tile's group.
template <Design design>
TILEWRIGHT_DEVICE KSlice k_slice_of(const WorkTileOf<design>& work) {
    return {.begin = work.k_block, .count = tiles_along(work.k, design.stage_k)};
}

// ---- Groups that begin at multiples of 128

struct KRange {
    int begin;
    int end;
};

/// The ranges of k of groups, for 32 groups at a time, one per lane of a warp. Sizes are clamped as in
/// src/problem/geometry.cpp.
class KRanges {
public:
    TILEWRIGHT_DEVICE explicit KRanges(const Arguments& arguments)
        : sizes_(arguments.sizes), groups_(arguments.batch), k_(arguments.k) {}

    /// The group's range, the same in all lanes. Groups in ascending order are read once.
    TILEWRIGHT_DEVICE KRange of(int group) {
        if (group < first_) restart();
        while (group >= first_ + warp_threads) read_next();
        return {.begin = from_lane(begin_, group - first_), .end = from_lane(end_, group - first_)};
    }

private:
    TILEWRIGHT_DEVICE void restart() {
        first_ = -warp_threads;
        next_begin_ = 0;
    }

    TILEWRIGHT_DEVICE void read_next() {
        first_ += warp_threads;
        const int group = first_ + lane_index();
        end_ = group < groups_ ? clamped(size_at(sizes_, group), k_) : 0;
        begin_ = begin_after_earlier(next_aligned(end_, sizes_.alignment, k_), next_begin_);
        if (end_ < begin_) end_ = begin_;
    }

    const GroupSizes& sizes_;
    int groups_;
    int k_;
    int first_ = -warp_threads;  // the group of lane 0
    int next_begin_ = 0;         // the beginning of the group after the lanes' groups
    int begin_ = 0;              // the beginning of the lane's group
    int end_ = 0;
};

// ---- Groups that begin anywhere

/// The place of a group's values.
struct GroupOrigin {
    // The sum of k of the earlier groups, or the group's beginning in the rows of all groups.
    int begin;
    int k;  // k of the group's rows in memory; the scales may serve fewer
};

/// Whether TMA can load from the group: the addresses and strides of its rows must be multiples of 16 bytes.
TILEWRIGHT_DEVICE bool is_tma_aligned(const GroupOrigin& origin, bool flat) {
    return origin.begin % 16 == 0 && (!flat || origin.k % 16 == 0);
}

/// The origins of groups, for 32 groups at a time as in `KRanges`. Scales begin a new column with each group.
class KOrigins {
public:
    TILEWRIGHT_DEVICE explicit KOrigins(const AllArguments& arguments)
        : sizes_(arguments.sizes),
          groups_(arguments.batch),
          k_limit_(arguments.k),
          columns_(arguments.groups_of_k.columns) {}

    /// Selects `group` for the functions that follow; the same in all lanes. Groups in ascending order are read once.
    TILEWRIGHT_DEVICE void find(int group) {
        if (group < first_) restart();
        while (group >= first_ + warp_threads) read_next();
        lane_ = group - first_;
    }
    /// Keeps the place of the group's values for `origin`, which one lane may call.
    TILEWRIGHT_DEVICE void keep_origin() { origin_ = {.begin = from_lane(begin_, lane_), .k = from_lane(k_, lane_)}; }
    TILEWRIGHT_DEVICE GroupOrigin origin() const { return origin_; }
    /// The first column of scales, and the k that the columns serve.
    TILEWRIGHT_DEVICE int column() const { return from_lane(column_, lane_); }
    TILEWRIGHT_DEVICE int served() const {
        const int k = from_lane(k_, lane_), left = columns_ - column();
        return left >= tiles_along(k, row_bytes) ? k : left * row_bytes;
    }

private:
    /// The sum of `value` and of all earlier lanes, limited to `limit`. `value` becomes the sum over all lanes.
    TILEWRIGHT_DEVICE static int sum_before(int each, int limit, int& value) {
        u32 sum = u32(each);
        const int lane = lane_index();
#pragma unroll
        for (int step = 1; step < warp_threads; step *= 2) {
            const u32 before = u32(from_lane(int(sum), lane - step));
            if (lane >= step) sum = at_most(sum + before, limit);
        }
        const u32 start = u32(value), earlier = u32(from_lane(int(sum), lane - 1));
        value = int(at_most(start + u32(from_lane(int(sum), warp_threads - 1)), limit));
        return lane == 0 ? int(start) : int(at_most(start + earlier, limit));
    }
    TILEWRIGHT_DEVICE static u32 at_most(u32 value, int limit) { return value < u32(limit) ? value : u32(limit); }

    TILEWRIGHT_DEVICE void restart() {
        first_ = -warp_threads;
        next_begin_ = next_column_ = 0;
    }

    TILEWRIGHT_DEVICE void read_next() {
        first_ += warp_threads;
        const int group = first_ + lane_index();
        const int size = group < groups_ ? clamped(size_at(sizes_, group), k_limit_) : 0;
        if (sizes_.kind == SizeKind::counts) {
            begin_ = sum_before(size, k_limit_, next_begin_);
            k_ = min(size, k_limit_ - begin_);
        } else {
            begin_ = begin_after_earlier(size, next_begin_);
            k_ = max(size - begin_, 0);
        }
        column_ = sum_before(min(tiles_along(k_, row_bytes), columns_), columns_, next_column_);
    }

    const GroupSizes& sizes_;
    int groups_;
    int k_limit_;
    int columns_;
    int first_ = -warp_threads;  // the group of lane 0
    int lane_ = 0;
    int next_begin_ = 0;  // the beginning of the group after the lanes' groups
    int next_column_ = 0;
    int begin_ = 0;  // the beginning of the lane's group
    int k_ = 0;
    int column_ = 0;
    GroupOrigin origin_{};
};

// ---- The tiles of one block

template <Design design>
class KGroupedSchedule {
public:
    TILEWRIGHT_DEVICE KGroupedSchedule(const ArgumentsOf<design>& arguments, int block, int blocks)
        : tiles_(arguments.scheduler, block, blocks), groups_(arguments) {
        prefetch_sizes(arguments.sizes, arguments.batch, block, blocks);
    }

    TILEWRIGHT_DEVICE WorkTileOfK next() {
        const WorkTile tile = tiles_.next();
        WorkTileOfK work{.row = tile.row, .column = tile.column, .batch = tile.batch, .exists = tile.exists};
        if (tile.exists == 0) return work;
        if constexpr (design.groups == Groups::k_anywhere) {
            groups_.find(tile.batch);
            work.k_block = groups_.column();
            work.k = groups_.served();
            groups_.keep_origin();
        } else {
            const KRange range = groups_.of(tile.batch);
            work.k_block = range.begin / design.stage_k;
            work.k = range.end - range.begin;
        }
        return work;
    }

    /// Groups::k_anywhere: the place of the values of the last tile's group.
    TILEWRIGHT_DEVICE GroupOrigin origin() const { return groups_.origin(); }

private:
    Schedule<design> tiles_;
    Chosen<design.groups == Groups::k_anywhere, KOrigins, KRanges> groups_;
};

}  // namespace tilewright::hopper
