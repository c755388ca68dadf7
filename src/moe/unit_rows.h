// A unit of whole rows on the CPU, and its gradient.
#pragma once

#include <cstdint>

#include "formats/gated_unit.h"

namespace tilewright::moe {

/// Where the numbers of a feature are in a row of gate_up: gates and then ups, or both alternating.
struct RowHalves {
    RowHalves(formats::Unit unit, bool interleaved, std::int64_t count)
        : step(interleaved && formats::has_up(unit) ? 2 : 1),
          up(!formats::has_up(unit) ? 0
             : interleaved          ? 1
                                    : count) {}
    std::int64_t step;
    std::int64_t up;  // from a gate to its up; 0: there are no ups
};

/// Computes `count` features of h of a row.
template <formats::Unit unit>
void activate_row(const float* gate_up, bool interleaved, const formats::GatedRule& rule, std::int64_t count,
                  float* h) {
    const RowHalves at(unit, interleaved, count);
    for (std::int64_t i = 0; i < count; ++i) {
        h[i] = formats::gated<unit>(gate_up[i * at.step], gate_up[i * at.step + at.up], rule);
    }
}

/// Computes the gradient of a row of gate_up from that of its `count` features of h.
template <formats::Unit unit>
void gradient_of_row(const float* gate_up, const float* gradient, bool interleaved, const formats::GatedRule& rule,
                     std::int64_t count, float* out) {
    const RowHalves at(unit, interleaved, count);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t gate = i * at.step, up = gate + at.up;
        const formats::GatedGradient both =
            formats::gated_gradient<unit>(gate_up[gate], gate_up[up], gradient[i], rule);
        if (formats::has_up(unit)) out[up] = both.up;
        out[gate] = both.gate;
    }
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

using GradientFunction = void (*)(const float*, const float*, bool, const formats::GatedRule&, std::int64_t, float*);

inline GradientFunction gradient_function(formats::Unit unit) {
    switch (unit) {
        case formats::Unit::swiglu: return gradient_of_row<formats::Unit::swiglu>;
        case formats::Unit::situ: return gradient_of_row<formats::Unit::situ>;
        case formats::Unit::geglu: return gradient_of_row<formats::Unit::geglu>;
        case formats::Unit::relu_squared: return gradient_of_row<formats::Unit::relu_squared>;
    }
    return nullptr;
}

}  // namespace tilewright::moe
