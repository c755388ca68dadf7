// Which tile of D comes next. Plain C++: the kernels walk it, and tests prove that every tile is met once.
#pragma once

#include "hopper/tile.h"

namespace tilewright::hopper {

/// One tile of D: where it begins.
struct Work {
    int row;
    int column;
    int batch;
    int exists;  // 0: there is no more
};

/// The sizes that the walk depends on.
struct Extent {
    int m;
    int n;
    int batch;
    int band;  // tiles along m that are walked before n advances: so many rows of A stay in L2
};

/// The tiles of one block of a persistent grid: every `blocks`-th from `block` on. Blocks of a cluster take neighbours
/// that share an operand's tile.
template <Tile tile>
class Schedule {
public:
    constexpr Schedule(const Extent& extent, int block, int blocks)
        : extent_(extent),
          rank_(block % tile.cluster),
          tiles_m_(count(extent.m, tile.m * (tile.multicast == Multicast::b ? tile.cluster : 1))),
          tiles_n_(count(extent.n, tile.n * (tile.multicast == Multicast::a ? tile.cluster : 1))),
          next_(block / tile.cluster),
          step_(blocks / tile.cluster) {}

    constexpr Work next() {
        const int each = tiles_m_ * tiles_n_;
        if (next_ >= static_cast<long long>(each) * extent_.batch) return {};
        const int batch = static_cast<int>(next_ / each);
        const int index = static_cast<int>(next_ - static_cast<long long>(batch) * each);
        next_ += step_;
        // Bands of `band` rows of tiles; in a band m runs fastest.
        const int begin = index / (extent_.band * tiles_n_) * extent_.band;
        const int rows = extent_.band < tiles_m_ - begin ? extent_.band : tiles_m_ - begin;
        const int rest = index - begin * tiles_n_;
        int m = begin + rest % rows;
        int n = rest / rows;
        if (tile.multicast == Multicast::b) m = m * tile.cluster + rank_;
        if (tile.multicast == Multicast::a) n = n * tile.cluster + rank_;
        return {.row = m * tile.m, .column = n * tile.n, .batch = batch, .exists = 1};
    }

private:
    static constexpr int count(int size, int step) {
        return static_cast<int>((static_cast<long long>(size) + step - 1) / step);
    }

    Extent extent_;
    int rank_;
    int tiles_m_;
    int tiles_n_;
    long long next_;
    int step_;
};

}  // namespace tilewright::hopper
