// A tile of D that a block computes, and the order in which tiles are taken. Standard C++, for the kernels, the host,
// and tests which prove that every tile is taken once.
#pragma once

#include "hopper/tile/tile.h"

namespace tilewright::hopper {

struct WorkTile {
    int row;  // The first row of D.
    int column;
    int batch;  // Batch member of A, D and C.
    // Group of B; k-grouped: the group's first k-block.
    int group;
    // End of the group: rows from here on are not stored; k-grouped: the group's k.
    int row_end;
    // 0: the block has no more tiles.
    int exists;
};

/// k-grouped: the first k-block and the k of the tile's group, which is `batch`. (Separate members would change the
/// machine code of other kernels.)
constexpr int first_k_block_of(const WorkTile& work) { return work.group; }
constexpr int k_of(const WorkTile& work) { return work.row_end; }

/// Rows of D from the first row of a warpgroup's share on.
constexpr int rows_of_share(const Tile& tile, int m, const WorkTile& work, int warpgroup) {
    return skips_rows(tile) ? m - work.row - warpgroup * rows_per_warpgroup(tile) : tile.shape.m;
}

/// D's size and the order of its tiles.
struct Extent {
    int m;
    int n;
    int batch;
    // Tiles along m that are taken before n advances, so that their rows of A stay in L2.
    int raster_width;
};

/// Numbers of tiles are 32-bit, because no memory holds 2^31 tiles of D.
constexpr int tiles_along(int size, int step) { return size / step + (size % step != 0); }

/// Rows and columns of D that the blocks of a cluster take at once.
constexpr int cluster_rows(const Tile& tile) {
    return d_rows(tile) * (tile.cluster.use == ClusterUse::share_b ? tile.cluster.size : 1);
}
constexpr int cluster_columns(const Tile& tile) {
    return d_columns(tile) * (tile.cluster.use == ClusterUse::share_a ? tile.cluster.size : 1);
}

/// The k-block at which a slice of k begins: at a multiple of 128 k-elements, whatever the size of a k-block.
constexpr int k_slice_begin(const Tile& tile, int k_blocks, int slice) {
    const int together = 128 / tile.shape.k;
    const long long steps = tiles_along(k_blocks, together);
    const int begin = static_cast<int>(steps * slice / k_slices(tile)) * together;
    return together == 1 ? begin : min(begin, k_blocks);
}

/// Division by a number that the host knows, as a multiplication. A block divides once per tile, and a division takes
/// about twenty instructions. With l = ceil(log2 d), ceil(2^(31 + l) / d) * i / 2^(31 + l) is i / d for all i < 2^31
/// (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994).
struct FastDivmod {
    unsigned multiplier = 0;
    int shift = 0;
    int value = 0;

    constexpr FastDivmod() = default;
    constexpr explicit FastDivmod(int divisor) : shift(31), value(divisor) {
        while ((1ULL << (shift - 31)) < static_cast<unsigned>(divisor)) ++shift;
        multiplier = static_cast<unsigned>(((1ULL << shift) + static_cast<unsigned>(divisor) - 1) / divisor);
    }
    constexpr int quotient(int i) const {
        return static_cast<int>(static_cast<unsigned long long>(multiplier) * static_cast<unsigned>(i) >> shift);
    }
};

}  // namespace tilewright::hopper
