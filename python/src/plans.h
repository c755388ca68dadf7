// What the planner would choose for a call, bound.
#pragma once

#include "call.h"

#include <nanobind/nanobind.h>
#include <tilewright/plan.h>

#include <utility>

namespace tilewright::python {

void bind_plans(nb::module_& m);

/// Throws Error with every finding of `validate`, and for a device that does not ship with the library.
Explanation explain_call(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords);

/// Which 1x128 scales to copy, a's and b's, so that TMA loads them; neither for a wrong call, which
/// says itself what is wrong when it is made.
std::pair<bool, bool> scales_to_copy_of(nb::handle a, nb::handle b, const nb::dict& group_keywords,
                                        const nb::dict& keywords);

}  // namespace tilewright::python
