// How often a thread described calls: a call is described once, and tests/plan/kernel_plan_test.cpp holds that.
#pragma once

namespace tilewright {

struct TimesMade {
    int geometries = 0;
    int workspace_plans = 0;
};

inline thread_local constinit TimesMade times_made{};

}  // namespace tilewright
