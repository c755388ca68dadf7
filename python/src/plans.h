// Binds the planner: the plan that it would choose for a call.
#pragma once

#include "call.h"

#include <nanobind/nanobind.h>
#include <tilewright/plan.h>

#include <utility>

namespace tilewright::python {

void bind_plans(nb::module_& m);

/// Throws Error with every finding of `validate`, and for an unknown device.
Explanation explain_call(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords);

/// Whether to copy the 1x128 scales of a, and of b, so that TMA loads them. Neither for a wrong call: the call itself
/// reports its mistakes.
std::pair<bool, bool> scales_to_copy_of(nb::handle a, nb::handle b, const nb::dict& group_keywords,
                                        const nb::dict& keywords);

}  // namespace tilewright::python
