// Which tile of D comes next. Plain C++: the kernels walk it, and tests prove that every tile is met once.
#pragma once

#include "hopper/tile.h"

namespace tilewright::hopper {

/// One tile of D: where it begins.
struct Work {
    int row;
    int column;
    int batch;    // of A, D and C
    int group;    // the batch of B
    int row_end;  // the first row that is not stored
    int exists;   // 0: there is no more
};

/// The sizes that the walk depends on.
struct Extent {
    int m;
    int n;
    int batch;
    int band;  // tiles along m that are walked before n advances: so many rows of A stay in L2
};

/// Numbers of tiles are 32-bit: 2^31 tiles of D are more than any memory holds.
constexpr int tiles_along(int size, int step) { return size / step + (size % step != 0); }

/// A tile among `tiles_m` x `tiles_n`: bands of `band` rows of tiles; in a band m runs fastest.
struct Place {
    int m;
    int n;
};
constexpr Place place_in_bands(int index, int tiles_m, int tiles_n, int band) {
    const int begin = index / (band * tiles_n) * band;
    const int rows = band < tiles_m - begin ? band : tiles_m - begin;
    const int rest = index - begin * tiles_n;
    return {.m = begin + rest % rows, .n = rest / rows};
}

/// Rows and columns of D that the blocks of a cluster take at once.
constexpr int cluster_rows(const Tile& tile) {
    return tile.rows() * (tile.multicast == Multicast::b ? tile.cluster : 1);
}
constexpr int cluster_columns(const Tile& tile) {
    return tile.columns() * (tile.multicast == Multicast::a ? tile.cluster : 1);
}

/// The tiles of one block of a persistent grid: every `blocks`-th from `block` on. Blocks of a cluster take neighbours
/// that share an operand's tile.
template <Tile tile>
class Schedule {
public:
    constexpr Schedule(const Extent& extent, int block, int blocks)
        : rows_(extent.m),
          band_(extent.band),
          rank_(block % tile.cluster),
          tiles_m_(tiles_along(extent.m, tile.m * (tile.multicast == Multicast::b ? tile.cluster : 1))),
          tiles_n_(tiles_along(extent.n, tile.n * (tile.multicast == Multicast::a ? tile.cluster : 1))),
          tiles_(tiles_m_ * tiles_n_ * extent.batch),
          next_(block / tile.cluster),
          step_(blocks / tile.cluster) {}

    constexpr Work next() {
        if (next_ >= tiles_) return {};
        const int batch = next_ / (tiles_m_ * tiles_n_);
        const int index = next_ - batch * tiles_m_ * tiles_n_;
        next_ += step_;
        auto [m, n] = place_in_bands(index, tiles_m_, tiles_n_, band_);
        if (tile.multicast == Multicast::b) m = m * tile.cluster + rank_;
        if (tile.multicast == Multicast::a) n = n * tile.cluster + rank_;
        return {.row = m * tile.m, .column = n * tile.n, .batch = batch, .group = batch, .row_end = rows_, .exists = 1};
    }

private:
    int rows_;
    int band_;
    int rank_;
    int tiles_m_;
    int tiles_n_;
    int tiles_;
    int next_;
    int step_;
};

}  // namespace tilewright::hopper
