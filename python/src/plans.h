// What the planner would choose for a call, bound.
#pragma once

#include "call.h"

#include <nanobind/nanobind.h>
#include <tilewright/plan.h>

namespace tilewright::python {

void bind_plans(nb::module_& m);

/// Throws Error with every finding of `validate`, and for a device that does not ship with the library.
Explanation explain_call(const CallArguments& arguments, std::string_view device);

}  // namespace tilewright::python
