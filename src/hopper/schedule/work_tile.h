// A tile of D that a block computes, and the order in which tiles are taken. Standard C++, for the kernels, the host,
// and tests which prove that every tile is taken once.
#pragma once

#include "base/math.h"
#include "hopper/description/design.h"

namespace tilewright::hopper {

/// A tile of a product, of a batch, or of groups of rows.
struct WorkTile {
    int row = 0;  // The first row of D.
    int column = 0;
    int batch = 0;    // Batch member of A, D and C.
    int group = 0;    // The matrix of B.
    int row_end = 0;  // End of the group: rows from here on are not stored.
    int exists = 0;   // 0: the block has no more tiles.

    constexpr int matrix_of_a() const { return batch; }
    constexpr int matrix_of_b() const { return group; }
    constexpr int scales_of_b() const { return group; }
    constexpr int first_k_block() const { return 0; }
    constexpr bool lacks_k() const { return false; }
};

/// A tile of a group of k. All groups share one matrix of A and one of B.
struct WorkTileOfK {
    int row = 0;
    int column = 0;
    int batch = 0;  // The group, and its matrix of D and C.
    int k_block = 0;
    int k = 0;  // of the group
    int exists = 0;

    constexpr int matrix_of_a() const { return 0; }
    constexpr int matrix_of_b() const { return 0; }
    constexpr int scales_of_b() const { return batch; }
    /// The group's first k-block.
    constexpr int first_k_block() const { return k_block; }
    /// D is C, or zeros.
    constexpr bool lacks_k() const { return k == 0; }
};

template <Design design>
using WorkTileOf = Chosen<design.is_k_grouped(), WorkTileOfK, WorkTile>;

/// The end of the rows that a tile stores. Dense: a tile's `row_end` is m, but it would occupy a register during the
/// mainloop.
template <Design design>
constexpr int end_of_rows(const WorkTileOf<design>& work, int m) {
    if constexpr (design.groups == Groups::rows) return work.row_end;
    return m;
}

/// Whether a warpgroup has rows of D in the tile, ahead of the end of D or of the group.
template <Design design>
constexpr bool has_rows(const WorkTileOf<design>& work, int m, int warpgroup) {
    const int row = work.row + warpgroup * design.rows_per_warpgroup;
    return !design.skips_rows || row < end_of_rows<design>(work, m);
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

/// The k-block at which a slice of k begins: at a multiple of 128 k-elements, whatever the size of a k-block.
constexpr int k_slice_begin(const Design& design, int k_blocks, int slice) {
    const int together = 128 / design.stage_k;
    const long long steps = tiles_along(k_blocks, together);
    const int begin = static_cast<int>(steps * slice / design.cluster.k_slices) * together;
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
