// Runs the steps of a layer on a GPU.
#pragma once

#include <tilewright/run.h>

#include "moe/steps.h"

namespace tilewright {

/// Routes and permutes, in one kernel for few choices.
void run_on_gpu(const moe::RouteStep& route, const moe::PermuteStep& permute, int device, const RunOptions& how);
void run_on_gpu(const moe::RouteStep& step, int device, const RunOptions& how);
void run_on_gpu(const moe::PermuteStep& step, int device, const RunOptions& how);
void run_on_gpu(const moe::ActivateStep& step, int device, const RunOptions& how);
void run_on_gpu(const moe::CombineStep& step, int device, const RunOptions& how);

}  // namespace tilewright
