// A layer of experts as its definition composes it from public calls: `quantize`, `run` of a Problem, and plain loops
// for routes, units and sums. A layer has these bits (docs/numerics.md, "Layers of experts").
#pragma once

#include <tilewright/moe.h>

#include <string>
#include <vector>

#include "check/moe_case.h"

namespace tilewright::check {

/// out as f32, one row after another; rows that are not written are zeros. `addend`: its numbers in f32, or empty. It
/// is given apart because the call may already have written over it. For one chunk, on the CPU.
std::vector<float> composed(const Moe& layer, const std::vector<float>& addend);

/// Where the layer's output differs in bits from the composition; empty if nowhere.
std::string difference_from_parts(const MoeCase& test_case);

}  // namespace tilewright::check
