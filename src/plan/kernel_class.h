// Kernels without a shape: what the recipes of two operands decide. The order is the canonical one, so that a kernel
// cannot differ from the arithmetic that the CPU executes. Also which fields of a kernel have a meaning together,
// whatever the call and the device; legality.h adds the rules that depend on these.
#pragma once

#include <tilewright/problem.h>
#include <tilewright/recipe.h>

#include "hopper/description/kernel.h"
#include "problem/canonical_order.h"
#include "problem/gpu_routes.h"

namespace tilewright::planner {

/// The operand as the kernel reads it. `multiplied` is the format of its values there: its own, or bf16 or e4m3 if the
/// call's preparation decodes them. If sums are scaled per 32 k-elements, coarser scales have one form (kernel.h).
constexpr hopper::Side side_of(const OperandRecipe& operand, ScaleUse use, int chain, Format multiplied) {
    hopper::Side side{.scale_rows = 0, .scale_k = 0};
    switch (multiplied) {
        case Format::bf16: side.values = hopper::ValueFormat::bf16; break;
        case Format::e5m2: side.values = hopper::ValueFormat::e5m2; break;
        default: side.values = hopper::ValueFormat::e4m3; break;
    }
    if (operand.granularity == Granularity::none) return side;
    const bool coarser = use == ScaleUse::chains && k_block(operand.granularity) != chain;
    side.scale_rows = coarser || row_block(operand.granularity) == 0 ? 1 : row_block(operand.granularity);
    side.scale_k = coarser ? 0 : k_block(operand.granularity);
    return side;
}

/// The class of kernels for a recipe that `validate` accepts, with operands in `values`.
constexpr hopper::Kernel kernel_class(const Recipe& recipe, Accumulation accumulation, Format a_values,
                                      Format b_values) {
    hopper::Kernel kernel;
    kernel.order = canonical_order(recipe, accumulation).value_or(CanonicalOrder{});
    const int chain = kernel.order.chain;
    kernel.a = side_of(recipe.a, kernel.order.a, chain, a_values);
    kernel.b = side_of(recipe.b, kernel.order.b, chain, b_values);
    if (const std::optional<GpuRoute> route = gpu_route(recipe); route && route->ones_for_b) {
        kernel.order.b = ScaleUse::end;
        kernel.b.scale_rows = 1;
    }
    return kernel;
}

/// FP4 weights in packed tiles.
constexpr hopper::Kernel with_packed_weights(hopper::Kernel kernel) {
    kernel.swap_ab = true;
    kernel.b.values = kernel.order.step == StepKind::bf16 ? hopper::ValueFormat::bf16 : hopper::ValueFormat::e4m3;
    kernel.b.form = hopper::Form::tiles;
    return kernel;
}

/// Whether a side's scales multiply the sum of each k-block, one per row.
constexpr bool has_1x128_scales(const hopper::Side& side, ScaleUse use) {
    return use == ScaleUse::chains && side.scale_rows == 1 && side.scale_k == 128;
}

/// Why the fields contradict each other, or null. No rule says which operands go together, because `kernel_class` takes
/// both sides from a recipe.
const char* contradiction(const hopper::Kernel& kernel);

}  // namespace tilewright::planner
