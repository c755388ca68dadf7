// The epilogue of a tile without split-K: epilogue scales, alpha, and one of several ways to store D.
#pragma once

#include "hopper/store/element_store.h"
#include "hopper/store/f32_stage.h"
#include "hopper/store/stage.h"

namespace tilewright::hopper {

/// A tile of D from its accumulators.
template <Design design>
TILEWRIGHT_DEVICE void store(Consumer<design>& c, Accumulators<design>& accumulators, const WorkTileOf<design>& work) {
    if constexpr (design.has_epilogue_scales) scale_accumulators<design>(c, accumulators);
    if constexpr (design.output == Output::f32_by_tma) {
        stage_f32<design>(c, accumulators, work);
    } else if constexpr (design.output != Output::any) {
        store_by_tma<design, 2>(c, accumulators);
    } else {
        if (!c.by_tma) return store_by_element<design>(c, accumulators, work);
        multiply_by_alpha<design>(accumulators, c.arguments, work);
        if (element_bytes(c.arguments.format) == 2) {
            if constexpr (store_of(design, 2).possible) store_by_tma<design, 2>(c, accumulators);
        } else {
            if constexpr (store_of(design, 4).possible) store_by_tma<design, 4>(c, accumulators);
        }
    }
}

}  // namespace tilewright::hopper
