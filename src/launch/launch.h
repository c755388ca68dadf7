// The parameters of a kernel launch: the plan of a call, lowered to arguments, tensor maps and a grid. No CUDA: the GPU
// and the emulator each encode the tensor maps in their own way.
#pragma once

#include <optional>

#include "hopper/arguments.h"
#include "hopper/description/design.h"
#include "plan/variant.h"

namespace tilewright::launch {

/// The place of groups' sizes, for the kernel, which is the only reader of sizes; empty for calls without groups.
hopper::GroupSizes group_sizes(const Geometry& geometry);

/// Tiles along m that are taken before n advances.
int raster_width(const Geometry& geometry, const hopper::Design& tile);

struct Launch {
    hopper::AllArguments arguments{};  // The launcher fills in the tensor maps and the report.
    // Maps have no base if nothing is read through them: templates, and all maps without any k.
    //
    // k-grouped, groups that begin anywhere: templates, from which the kernel makes the maps of each group.
    hopper::TensorMapDescription a{};
    std::optional<hopper::TensorMapDescription> b{};  // Not for packed tiles.
    // The last row of tiles, if it loads fewer rows.
    std::optional<hopper::TensorMapDescription> a_last{};
    std::optional<hopper::TensorMapDescription> c{};         // Kernels for D of f32, if C is given.
    std::optional<hopper::TensorMapDescription> d{};         // If stored_by_tma.
    std::optional<hopper::TensorMapDescription> a_scales{};  // If scales_by_tma and A has row scales in the loop.
    // For the last row of tiles, if scales are by row.
    std::optional<hopper::TensorMapDescription> a_scales_last{};
    std::optional<hopper::TensorMapDescription> b_scales{};  // If scales_by_tma and B has row scales in the loop.
    int blocks = 0;                                          // persistent; 0: nothing to launch
    int cluster = 1;
    int threads = 0;
    int shared_bytes = 0;
};

/// Calls encode(map, description, operand) for each map that the kernel needs.
template <class Encode>
void encode_maps(const Launch& launch, hopper::AllArguments& to, const Encode& encode) {
    const auto given = [&](hopper::TensorMap& map, const std::optional<hopper::TensorMapDescription>& of,
                           const char* operand) {
        if (of) encode(map, *of, operand);
    };
    encode(to.a, launch.a, "a.values");
    to.a_last = to.a;
    given(to.a_last, launch.a_last, "a.values");
    given(to.b, launch.b, "b.values");
    given(to.c, launch.c, "c");
    given(to.d, launch.d, "d");
    given(to.a_scales, launch.a_scales, "a.scales");
    given(to.a_scales_last, launch.a_scales_last, "a.scales");
    given(to.b_scales, launch.b_scales, "b.scales");
}

/// For a problem without findings of `validate` for the backend hopper. `kernel` is the plan for this product, and
/// `sms` is the number of SMs that the call may use.
Launch lower(const Geometry& product, const planner::KernelPlan& kernel, int sms);

/// Thread blocks of that launch.
int blocks(const Geometry& geometry, const hopper::Design& tile, int sms);

}  // namespace tilewright::launch
