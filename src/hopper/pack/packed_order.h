// The order of packed weights (src/formats/packed_layout.h), for the kernels that write and expand them.
#pragma once

#include "base/math.h"
#include "formats/packed_tile.h"
#include "hopper/ptx/ptx_numbers.h"

namespace tilewright::hopper {

using formats::packed_code_bytes, formats::packed_k, formats::packed_rows;

/// The place of a row's scales and exponents among those of a tile.
TILEWRIGHT_DEVICE int row_place(int row) { return (row / 16 * 8 + row % 8) * 2 + row % 16 / 8; }

/// The number of a tile of weights [groups, n, k].
TILEWRIGHT_DEVICE i64 packed_tile_index(int n, int k, int group, int row_tile, int k_block) {
    const int row_tiles = ceil_div(n, packed_rows), k_blocks = ceil_div(k, packed_k);
    // The two row tiles of 128 rows are adjacent.
    const int first = row_tile / 2 * 2, together = min(2, row_tiles - first);
    return i64(group) * row_tiles * k_blocks + first * k_blocks + k_block * together + row_tile % 2;
}

}  // namespace tilewright::hopper
