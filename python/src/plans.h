// What the planner would choose for a call, bound.
#pragma once

#include "call.h"

#include <nanobind/nanobind.h>
#include <tilewright/plan.h>

namespace tilewright::python {

void bind_plans(nb::module_& m);

/// Throws Error with every finding of `validate`, and for a device that does not ship with the library.
Explanation explain_call(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords,
                         nb::handle device);

}  // namespace tilewright::python
