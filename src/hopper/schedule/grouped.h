// Which tile of D comes next where the rows of groups lie in memory of the device: a warp finds them, the other roles
// of its block are told (tiles.h).
#pragma once

#include "hopper/schedule/dense.h"
#include "hopper/schedule/group_sizes.h"

namespace tilewright::hopper {

/// The tiles of one block, as Schedule has them: piece after piece, every `blocks`-th tile from `block` on. A tile
/// begins where its piece does, or a multiple of its rows later. Which of a round of tiles a block takes changes from
/// round to round: the last tiles of pieces cost less, and would always meet the same blocks.
template <Tile tile>
class GroupedSchedule {
    static_assert(tile.cluster.use != ClusterUse::share_b, "blocks along the rows may meet different groups");

public:
    TILEWRIGHT_DEVICE GroupedSchedule(const GroupSizes& sizes, const Extent& extent, int block, int blocks)
        : pieces_(sizes, extent.batch, extent.m, extent.band * d_rows(tile)),
          separate_(sizes.kind == SizeKind::counts),
          band_(extent.band),
          rank_(block % tile.cluster.size),
          tiles_n_(tiles_along(extent.n, cluster_columns(tile))),
          place_(block / tile.cluster.size),
          next_(place_),
          step_(blocks / tile.cluster.size) {
        pieces_.prefetch(block, blocks);
    }

    TILEWRIGHT_DEVICE Work next() {
        while (true) {
            const u32 reach = ballot(next_ < tiles_);
            if (reach != 0) return take(lowest_bit(reach));
            if (!pieces_.next(piece_)) return {};
            const int before = from_lane(tiles_, warp_threads - 1);
            tiles_ = before + sum_of_lanes(tiles_m(piece_) * tiles_n_);
        }
    }

private:
    TILEWRIGHT_DEVICE static int tiles_m(const RowPiece& piece) {
        return tiles_along(piece.end - piece.begin, d_rows(tile));
    }

    /// The next tile, which lies in the piece of this lane.
    TILEWRIGHT_DEVICE Work take(int lane) {
        const RowPiece piece{.begin = from_lane(piece_.begin, lane),
                             .end = from_lane(piece_.end, lane),
                             .group = from_lane(piece_.group, lane)};
        const int begin = from_lane(tiles_, lane) - tiles_m(piece) * tiles_n_;
        const auto [m, n] = place_in_bands(next_ - begin, tiles_m(piece), tiles_n_, band_);
        advance();
        return {
            .row = piece.begin + m * d_rows(tile),
            .column = (tile.cluster.use == ClusterUse::share_a ? n * tile.cluster.size + rank_ : n) * d_columns(tile),
            .batch = separate_ ? piece.group : 0,
            .group = piece.group,
            .row_end = piece.end,
            .exists = 1};
    }

    TILEWRIGHT_DEVICE void advance() {
        const int further = (step_ * 5 / 16) | 1, left = step_ - place_;
        next_ += left;  // the beginning of the next round
        place_ = further < left ? place_ + further : further - left;
        next_ += place_;
    }

    GroupPieces pieces_;
    RowPiece piece_{};  // of this lane
    int tiles_ = 0;     // of all pieces up to this lane's
    bool separate_;     // each group's rows are a matrix of their own
    int band_;
    int rank_;
    int tiles_n_;
    int place_;  // in a round of `step_` tiles
    int next_;
    int step_;
};

}  // namespace tilewright::hopper
