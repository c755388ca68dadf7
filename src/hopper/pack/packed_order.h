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
    return i64(group) * row_tiles * k_blocks + formats::packed_tile_index(row_tiles, k_blocks, row_tile, k_block);
}

}  // namespace tilewright::hopper
