// The mistakes in the description of a layer of experts.
#pragma once

#include <tilewright/moe.h>

namespace tilewright {

/// Findings about the layer itself. The products' own checks follow in `validate`, because they need sound shapes.
std::vector<Finding> check(const Moe& layer, Check how_much);

/// Findings about a call of `route`.
std::vector<Finding> check(const Routing& routing, std::int64_t experts, const Routed& out);

/// Findings about a call of `combine`.
std::vector<Finding> check(const Combination& sum);
/// Findings about a call of `activate`.
std::vector<Finding> check(const ActivatedRows& call);
/// Findings about a call of `unit_gradient`.
std::vector<Finding> check(const UnitGradient& call);
/// Findings about a call of `weight_gradient`.
std::vector<Finding> check(const WeightGradient& call);

}  // namespace tilewright
