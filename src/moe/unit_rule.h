// The caller's description of a unit in the form of formats/gated_unit.h.
#pragma once

#include <tilewright/moe.h>

#include <cmath>

#include "formats/gated_unit.h"

namespace tilewright::moe {

constexpr formats::Unit unit_of(GatedUnit::Kind kind) {
    switch (kind) {
        case GatedUnit::Kind::situ: return formats::Unit::situ;
        case GatedUnit::Kind::geglu: return formats::Unit::geglu;
        case GatedUnit::Kind::relu_squared: return formats::Unit::relu_squared;
        default: return formats::Unit::swiglu;
    }
}

inline formats::GatedRule rule_of(const GatedUnit& unit) {
    return {.swiglu = {unit.swiglu.alpha, unit.swiglu.beta, formats::limit_of(unit.swiglu.limit)},
            .gate_bound = unit.gate_bound,
            .gate_inverse = 1 / unit.gate_bound,
            .up_bound = unit.up_bound,
            .up_inverse = 1 / unit.up_bound,
            .bounds_up = std::isfinite(unit.up_bound)};
}

}  // namespace tilewright::moe
