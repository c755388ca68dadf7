// Runs the steps of a layer, on the CPU or on a GPU: the library's own layers, and those that ranks share.
#pragma once

#include "api/moe_steps.h"
#include "cuda/backend.h"
#include "launch/moe.h"
#include "moe/exchange.h"

namespace tilewright {

/// Names of the products' operands, as callers know them.
extern const OperandNames names_of_up;
extern const OperandNames names_of_down;

/// Launches a step, or two that one kernel may serve.
template <class... Steps>
void run_on_gpu(int device, const RunOptions& how, const Steps&... steps) {
    (launch::require_served(steps), ...);
    cuda::run(launch::lower(steps...), device, how.stream, how.overlap);
}

template <class Step>
void run_step(const Step& step, const DeviceId& device, const RunOptions& how) {
    if (device.kind == DeviceId::Kind::cuda) return run_on_gpu(device.index, how, step);
    if constexpr (requires { moe::run_on_cpu(step, conversion(how)); }) {
        moe::run_on_cpu(step, conversion(how));
    } else {
        moe::run_on_cpu(step);
    }
}

/// One after another; on a GPU in fewer launches, where `lower` has one for several.
template <class... Steps>
void run_steps(const DeviceId& device, const RunOptions& how, const Steps&... steps) {
    if (device.kind == DeviceId::Kind::cuda) return run_on_gpu(device.index, how, steps...);
    (run_step(steps, device, how), ...);
}

/// The options of a layer's kernels after the first, which may begin while their predecessor ends. The first one only
/// does so if the caller says so, because other kernels precede it.
RunOptions after_first(const Moe& layer, const RunOptions& how);

/// Routes, and writes the rows of the first product.
void make_rows(const Moe& layer, const MoeSteps& made, const RunOptions& how);
/// From these rows to those of the second product.
void run_products(const Moe& layer, const MoeSteps& made, const RunOptions& how);

}  // namespace tilewright
