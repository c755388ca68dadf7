// The bytes of a packed tile in memory.
#pragma once

#include "hopper/arguments.h"
#include "hopper/description/design.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// Bytes of a tile. If the weights may have exponent windows, the number of windows of weights packed in advance is
/// known at run time.
template <Design design>
TILEWRIGHT_DEVICE int loaded_tile_bytes(const ArgumentsOf<design>& arguments) {
    if constexpr (design.b.form == Form::rows_and_tiles) return raw_tile_bytes;
    return design.feed == FeedKind::windowed ? arguments.packed.tile_bytes : packed_tile_bytes(design.b.scale_k);
}

}  // namespace tilewright::hopper
