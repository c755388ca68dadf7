// A unit of whole rows on the CPU.
#pragma once

#include <cstdint>

#include "formats/gated_unit.h"

namespace tilewright::moe {

/// Computes `count` features of h of a row. `gate_up` has the gates and the ups, or both alternating.
template <formats::Unit unit>
void activate_row(const float* gate_up, bool interleaved, const formats::GatedRule& rule, std::int64_t count,
                  float* h) {
    const bool alternate = interleaved && formats::has_up(unit);
    const std::int64_t step = alternate ? 2 : 1;
    const float* const up = gate_up + (alternate ? 1 : formats::has_up(unit) ? count : 0);
    for (std::int64_t i = 0; i < count; ++i) h[i] = formats::gated<unit>(gate_up[i * step], up[i * step], rule);
}

using UnitFunction = void (*)(const float*, bool, const formats::GatedRule&, std::int64_t, float*);

inline UnitFunction unit_function(formats::Unit unit) {
    switch (unit) {
        case formats::Unit::swiglu: return activate_row<formats::Unit::swiglu>;
        case formats::Unit::situ: return activate_row<formats::Unit::situ>;
        case formats::Unit::geglu: return activate_row<formats::Unit::geglu>;
        case formats::Unit::relu_squared: return activate_row<formats::Unit::relu_squared>;
    }
    return nullptr;
}

}  // namespace tilewright::moe
