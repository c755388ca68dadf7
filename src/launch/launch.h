// The parameters of a kernel launch: the plan of a call, lowered to arguments, tensor maps and a grid. No CUDA: the GPU
// and the emulator each encode the tensor maps in their own way.
#pragma once

#include <optional>

#include "hopper/arguments.h"
#include "hopper/description/design.h"
#include "plan/call_plan.h"

namespace tilewright::launch {

/// Tiles along m that are taken before n advances.
int raster_width(const Geometry& geometry, const hopper::Design& tile);

struct Launch {
    hopper::Arguments arguments{};  // The launcher fills in the tensor maps and the report.
    hopper::TensorMapDescription a{};
    hopper::TensorMapDescription b{};
    // The last row of tiles, if it loads fewer rows.
    std::optional<hopper::TensorMapDescription> a_last{};
    std::optional<hopper::TensorMapDescription> d{};         // If stored_by_tma.
    std::optional<hopper::TensorMapDescription> a_scales{};  // If scales_by_tma and A has row scales in the loop.
    // The same for the last row of tiles and scales by row. Kernels for D of f32: C.
    std::optional<hopper::TensorMapDescription> a_scales_last{};
    std::optional<hopper::TensorMapDescription> b_scales{};  // If scales_by_tma and B has row scales in the loop.
    bool has_packed_weights = false;                         // Arguments::b has them, not a map.
    // The kernel itself writes maps of A and B, from these maps and the contents of a_last.
    bool maps_groups = false;
    int blocks = 0;  // persistent; 0: nothing to launch
    int cluster = 1;
    int threads = 0;
    int shared_bytes = 0;
};

/// For a problem without findings of `validate` for the backend hopper. `kernel` is the plan for this product, and
/// `sms` is the number of SMs that the call may use.
Launch lower(const Geometry& product, const planner::KernelPlan& kernel, int sms);
inline Launch lower(const planner::CallPlan& plan, int sms) { return lower(plan.call.product, plan.kernel, sms); }

/// Thread blocks of that launch.
int blocks(const Geometry& geometry, const hopper::Design& tile, int sms);

}  // namespace tilewright::launch
