// One element of the oracle on its way through k, with the bound on what its cuts may have taken.
#pragma once

#include "check/step.h"
#include "formats/codec.h"
#include "problem/canonical_order.h"

#include <cmath>

namespace tilewright::check {

/// The factors of a chain; `none`: it is added unscaled.
struct ChainScales {
    float of_a = 1;
    float of_b = 1;
    bool none = false;
    bool in_turn = false;    // planted mistakes: one scale after the other,
    bool round_sum = false;  // the sum rounded to bf16
};

struct Running {
    float chain = 0;  // in the tensor core
    float slice = 0;  // sum of chains
    float total = 0;  // sum of slices
    double chain_bound = 0;
    double bound = 0;

    void add_step(StepKind step, const StepRow& a, const StepRow& b) {
        chain = step == StepKind::fp8 ? measured_step<32>(a, b, chain, chain_bound)
                                      : measured_step<16>(a, b, chain, chain_bound);
    }

    /// By a power of two, which is exact.
    void multiply_chain(int exponent) {
        chain = std::ldexp(chain, exponent);
        chain_bound = std::ldexp(chain_bound, exponent);
    }

    void end_chain(const ChainScales& scales) {
        const auto [of_a, of_b, none, in_turn, round_sum] = scales;
        if (in_turn) {
            slice = std::fma(chain * of_a, of_b, slice);
        } else if (!none) {
            slice = std::fma(chain, of_a * of_b, slice);
            bound += std::fabs(double{of_a} * of_b) * chain_bound;
        } else {
            slice += chain;
            bound += chain_bound;
        }
        if (round_sum) slice = formats::decode(formats::bf16_fields, formats::encode(formats::bf16_fields, slice));
        chain = 0;
        chain_bound = 0;
    }

    void end_slice() {
        total += slice;
        slice = 0;
    }
};

}  // namespace tilewright::check
