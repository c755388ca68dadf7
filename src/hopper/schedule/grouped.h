// The tiles of groups whose rows only the device knows. One warp finds them and passes them to the other roles of its
// block (scheduler.h).
#pragma once

#include "hopper/schedule/group_sizes.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

struct TilePosition {
    int m;
    int n;
};

/// The position of tile `index` of `tiles_m` x `tiles_n` tiles, in the order that dense.h computes with prepared
/// divisions. (One formula for both would change the machine code of all grouped kernels.)
/// Groups of few rows need no division, for which the block's first tile would wait.
constexpr TilePosition raster_position(int index, int tiles_m, int tiles_n, int raster_width) {
    const int begin = tiles_m <= raster_width ? 0 : index / (raster_width * tiles_n) * raster_width;
    const int rows = raster_width < tiles_m - begin ? raster_width : tiles_m - begin;
    const int rest = index - begin * tiles_n;
    if (rows == 1) return {.m = begin, .n = rest};
    const int column = u32(rest) / u32(rows);
    return {.m = begin + rest - column * rows, .n = column};
}

/// The tiles of one block, with the interface of Schedule: range after range of rows, every `blocks`-th tile from
/// `block` on. A tile begins at its range's first row, or a multiple of its rows later. The block-to-tile mapping
/// rotates each wave, so that cheap tail tiles do not always fall to the same blocks.
template <Design design>
class GroupedSchedule {
    static_assert(design.cluster.rows == 1, "blocks along the rows may have different groups");

public:
    TILEWRIGHT_DEVICE GroupedSchedule(const Arguments& arguments, int block, int blocks)
        : ranges_(arguments.sizes, arguments.batch, arguments.m, arguments.raster_width * design.d_rows),
          separate_(arguments.sizes.kind == SizeKind::counts),
          raster_width_(arguments.raster_width),
          rank_(block % design.cluster.size()),
          tiles_n_(tiles_along(arguments.n, design.d_columns * design.cluster.columns)),
          index_in_wave_(block / design.cluster.size()),
          next_(index_in_wave_),
          step_(blocks / design.cluster.size()) {
        ranges_.prefetch(block, blocks);
    }

    TILEWRIGHT_DEVICE WorkTile next() {
        while (true) {
            const u32 reach = ballot(next_ < tiles_);
            if (reach != 0) return take(lowest_bit(reach));
            if (!ranges_.next(range_)) return {};
            const int before = from_lane(tiles_, warp_threads - 1);
            tiles_ = before + sum_of_lanes(tiles_m(range_) * tiles_n_);
        }
    }

private:
    TILEWRIGHT_DEVICE static int tiles_m(const RowRange& range) {
        return tiles_along(range.end - range.begin, design.d_rows);
    }

    /// The next tile, which belongs to the range of lane `lane`.
    TILEWRIGHT_DEVICE WorkTile take(int lane) {
        const RowRange range{.begin = from_lane(range_.begin, lane),
                             .end = from_lane(range_.end, lane),
                             .group = from_lane(range_.group, lane)};
        const int begin = from_lane(tiles_, lane) - tiles_m(range) * tiles_n_;
        const auto [m, n] = raster_position(next_ - begin, tiles_m(range), tiles_n_, raster_width_);
        advance();
        return {.row = range.begin + m * design.d_rows,
                .column = (design.cluster.columns > 1 ? n * design.cluster.size() + rank_ : n) * design.d_columns,
                .batch = separate_ ? range.group : 0,
                .group = range.group,
                .row_end = range.end,
                .exists = 1};
    }

    TILEWRIGHT_DEVICE void advance() {
        const int further = (step_ * 5 / 16) | 1, left = step_ - index_in_wave_;
        next_ += left;  // the beginning of the next wave
        index_in_wave_ = further < left ? index_in_wave_ + further : further - left;
        next_ += index_in_wave_;
    }

    GroupRanges ranges_;
    RowRange range_{};  // of this lane
    int tiles_ = 0;     // of all ranges up to this lane's
    bool separate_;     // each group's rows are a separate matrix
    int raster_width_;
    int rank_;
    int tiles_n_;
    int index_in_wave_;  // in a wave of `step_` tiles
    int next_;
    int step_;
};

}  // namespace tilewright::hopper
