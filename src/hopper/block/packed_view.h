// The location of the tiles of packed weights: in the kernel's arguments, in place of a tensor map.
#pragma once

#include "hopper/arguments.h"
#include "hopper/description/design.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

template <Design design>
TILEWRIGHT_DEVICE PackedTiles packed_tiles_of(const Arguments& arguments) {
    return PackedTiles::from_map(design.b.form == Form::rows_and_tiles ? arguments.b_scales : arguments.b);
}

/// Bytes of a tile. If the weights may have exponent windows, the number of windows of weights packed in advance is
/// known at run time.
template <Design design>
TILEWRIGHT_DEVICE int loaded_tile_bytes(const Arguments& arguments) {
    if constexpr (design.b.form == Form::rows_and_tiles) return raw_tile_bytes;
    return design.has_windows() ? PackedTiles::from_map(arguments.b).tile_bytes : packed_tile_bytes(design.b.scale_k);
}

}  // namespace tilewright::hopper
