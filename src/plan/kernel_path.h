// How operands, scales and D travel through a kernel, in words for `explain`.
#pragma once

#include <tilewright/plan.h>

#include "plan/call_plan.h"

namespace tilewright::planner {

KernelPath kernel_path(const KernelPlan& kernel);

}  // namespace tilewright::planner
