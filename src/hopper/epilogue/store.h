// The epilogue of a tile without split-K: epilogue scales, alpha, and one of several ways to store D.
#pragma once

#include "hopper/epilogue/element_store.h"
#include "hopper/epilogue/f32_stage.h"
#include "hopper/epilogue/stage.h"

namespace tilewright::hopper {

/// A tile of D from its accumulators.
template <Tile tile>
TILEWRIGHT_DEVICE void store(Consumer<tile>& c, Accumulators<tile>& accumulators, const WorkTile& work) {
    if constexpr (has_epilogue_scales(tile)) scale_accumulators<tile>(c, accumulators);
    if constexpr (stores_f32(tile)) {
        stage_f32<tile>(c, accumulators, work);
    } else if constexpr (is_fast(tile)) {
        store_by_tma<tile, 2>(c, accumulators);
    } else {
        if (!c.by_tma) return store_by_element<tile>(c, accumulators, work);
        multiply_by_alpha<tile>(accumulators, c.arguments, work);
        if (element_bytes(c.arguments.format) == 2) {
            if constexpr (can_store_by_tma(tile, 2)) store_by_tma<tile, 2>(c, accumulators);
        } else {
            if constexpr (can_store_by_tma(tile, 4)) store_by_tma<tile, 4>(c, accumulators);
        }
    }
}

}  // namespace tilewright::hopper
