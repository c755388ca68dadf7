// Which tile of D comes next. Plain C++: the kernels walk it, and tests prove that every tile is met once.
#pragma once

#include "hopper/tile/tile.h"

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

/// The k-block at which a slice of k begins.
constexpr int slice_begin(int k_blocks, int slices, int slice) {
    return static_cast<int>(static_cast<long long>(k_blocks) * slice / slices);
}

/// Rows and columns of D that the blocks of a cluster take at once.
constexpr int cluster_rows(const Tile& tile) {
    return d_rows(tile) * (tile.cluster.use == ClusterUse::share_b ? tile.cluster.size : 1);
}
constexpr int cluster_columns(const Tile& tile) {
    return d_columns(tile) * (tile.cluster.use == ClusterUse::share_a ? tile.cluster.size : 1);
}

/// Division by a number that the host knows: code that is met once a tile takes the time of its instructions, and a
/// division is twenty. With l = ceil(log2 d), ceil(2^(31 + l) / d) * i / 2^(31 + l) is i / d for all i < 2^31 (Granlund
/// and Montgomery, "Division by Invariant Integers using Multiplication", 1994).
struct Divisor {
    unsigned multiplier = 0;
    int shift = 0;
    int value = 0;

    constexpr Divisor() = default;
    constexpr explicit Divisor(int divisor) : shift(31), value(divisor) {
        while ((1ULL << (shift - 31)) < static_cast<unsigned>(divisor)) ++shift;
        multiplier = static_cast<unsigned>(((1ULL << shift) + static_cast<unsigned>(divisor) - 1) / divisor);
    }
    constexpr int quotient(int i) const {
        return static_cast<int>(static_cast<unsigned long long>(multiplier) * static_cast<unsigned>(i) >> shift);
    }
};

/// What the walk needs, ready: the host computes it.
struct Walk {
    int tiles = 0;       // of a cluster each
    int rows = 0;        // of D
    Divisor per_matrix;  // tiles
    Divisor per_band;
    Divisor band;       // rows of tiles in a band
    Divisor last_band;  // in the last one
    int full_bands = 0;
};

constexpr Walk walk_of(const Tile& tile, const Extent& extent) {
    const int m = tiles_along(extent.m, cluster_rows(tile)), n = tiles_along(extent.n, cluster_columns(tile));
    const int band = extent.band < m ? extent.band : m;
    if (m * n * extent.batch == 0) return {};
    const int rest = m % band;
    return {.tiles = m * n * extent.batch,
            .rows = extent.m,
            .per_matrix = Divisor(m * n),
            .per_band = Divisor(band * n),
            .band = Divisor(band),
            .last_band = Divisor(rest == 0 ? band : rest),
            .full_bands = m / band};
}

/// The tiles of one block of a persistent grid: every `blocks`-th from `block` on. Blocks of a cluster take neighbours
/// that share an operand's tile.
template <Tile tile>
class Schedule {
public:
    constexpr Schedule(const Walk& walk, int block, int blocks)
        : walk_(walk),
          rank_(block % tile.cluster.size),
          next_(block / tile.cluster.size),
          step_(blocks / tile.cluster.size) {}

    constexpr Work next() {
        if (next_ >= walk_.tiles) return {};
        const int batch = walk_.per_matrix.quotient(next_);
        const int index = next_ - batch * walk_.per_matrix.value;
        next_ += step_;
        // Bands of rows of tiles; in a band m runs fastest.
        const int band = walk_.per_band.quotient(index);
        const int rest = index - band * walk_.per_band.value;
        const Divisor& rows = band < walk_.full_bands ? walk_.band : walk_.last_band;
        int n = rows.quotient(rest);
        int m = band * walk_.band.value + rest - n * rows.value;
        if (tile.cluster.use == ClusterUse::share_b) m = m * tile.cluster.size + rank_;
        if (tile.cluster.use == ClusterUse::share_a) n = n * tile.cluster.size + rank_;
        return {.row = m * d_rows(tile),
                .column = n * d_columns(tile),
                .batch = batch,
                .group = batch,
                .row_end = walk_.rows,
                .exists = 1};
    }

private:
    const Walk& walk_;
    int rank_;
    int next_;
    int step_;
};

}  // namespace tilewright::hopper
