// The tiles of k-grouped problems, whose sizes only the device knows. D has the tiles of a batch. One warp finds the k
// of each group and passes it to the other roles of its block (scheduler.h).
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/dense.h"
#include "hopper/schedule/group_sizes.h"

namespace tilewright::hopper {

/// The k-blocks of a tile's group.
template <Design design>
TILEWRIGHT_DEVICE KSlice k_slice_of(const WorkTileOf<design>& work) {
    return {.begin = work.k_block, .count = tiles_along(work.k, design.stage_k)};
}

/// k-elements of the group's last k-block if the group ends within it; otherwise 0.
template <Design design>
TILEWRIGHT_DEVICE int last_k_of(const WorkTileOf<design>& work) {
    return work.k % design.stage_k;
}

struct KRange {
    int begin;
    int end;
};

/// The ranges of k of groups, for 32 groups at a time, one per lane of a warp. Sizes are clamped as in
/// src/problem/geometry.cpp.
class KRanges {
public:
    TILEWRIGHT_DEVICE KRanges(const GroupSizes& sizes, int groups, int k) : sizes_(sizes), groups_(groups), k_(k) {}

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

/// The tiles of one block.
template <Design design>
class KGroupedSchedule {
public:
    TILEWRIGHT_DEVICE KGroupedSchedule(const Arguments& arguments, int block, int blocks)
        : tiles_(arguments.scheduler, block, blocks), ranges_(arguments.sizes, arguments.batch, arguments.k) {
        prefetch_sizes(arguments.sizes, arguments.batch, block, blocks);
    }

    TILEWRIGHT_DEVICE WorkTileOf<design> next() {
        const WorkTile tile = tiles_.next();
        WorkTileOfK work = without_k(tile);
        if (tile.exists == 0) return work;
        const KRange range = ranges_.of(tile.batch);
        work.k_block = range.begin / design.stage_k;
        work.k = range.end - range.begin;
        return work;
    }

private:
    Schedule<design> tiles_;
    KRanges ranges_;
};

}  // namespace tilewright::hopper
