// The location of the tiles of packed weights: in the kernel's arguments, in place of a tensor map.
#pragma once

#include "hopper/arguments.h"
#include "hopper/ptx/ptx.h"
#include "hopper/tile/operands.h"

namespace tilewright::hopper {

template <Tile tile>
TILEWRIGHT_DEVICE PackedTiles packed_tiles_of(const Arguments& arguments) {
    return PackedTiles::from_map(has_raw_codes(tile) ? arguments.b_scales : arguments.b);
}

/// Bytes of a tile. If the weights may have exponent windows, the number of windows of weights packed in advance is
/// known at run time.
template <Tile tile>
TILEWRIGHT_DEVICE int loaded_tile_bytes(const Arguments& arguments) {
    if constexpr (has_raw_codes(tile)) return raw_tile_bytes;
    return has_windows(tile) ? PackedTiles::from_map(arguments.b).tile_bytes : packed_tile_bytes(tile.b.storage);
}

}  // namespace tilewright::hopper
