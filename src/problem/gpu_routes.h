// Which pairs of operands a Hopper GPU multiplies, and how each side gets to its tensor cores: one table. Validation,
// the plan of the workspace and `verify` read it, and so does `tilewright support` by way of validation.
#pragma once

#include <tilewright/recipe.h>

#include <cstdint>
#include <optional>
#include <string>

#include "problem/canonical_order.h"

namespace tilewright {

/// The way of one side's values to the tensor cores.
enum class Arrival : std::uint8_t {
    either_order,  // Read as they are, along k or along their rows. workspace_plan.h says which are copied along k.
    along_k,       // Read along k: fp8 that is along its rows is copied, bf16 is refused.
    decoded,       // Decoded into the workspace, to the format that is multiplied.
    tiles,         // FP4 weights, packed in tiles in advance or by the call, and decoded in registers.
};

struct GpuRoute {
    StepKind multiplied = StepKind::fp8;  // The format of both sides on the tensor cores: `CanonicalOrder::step`.
    Arrival a = Arrival::either_order;
    Arrival b = Arrival::either_order;
    bool raw = false;          // Weights that are not packed may be read in place, with only their scales in tiles.
    bool expanded = false;     // Packed weights may be expanded first, to the format that is multiplied.
    bool groups_of_k = false;  // There are kernels for k-grouped calls.

    bool operator==(const GpuRoute&) const = default;
};

/// The route of a pair, or nothing: only the CPU multiplies such a pair.
std::optional<GpuRoute> gpu_route(const Recipe& recipe);

/// Whether a kernel loads such values from where the caller, or a copy along k, has them.
constexpr bool is_read_in_place(Arrival arrival) {
    return arrival == Arrival::either_order || arrival == Arrival::along_k;
}

/// Whether a GPU multiplies the pair as bf16.
bool is_multiplied_as_bf16(const Recipe& recipe);

/// The activations that have routes with these weights, in words: "bf16, nvfp4, or fp8 with tensor, row, 1x128 or 1x32
/// scales".
std::string activations_with(const OperandRecipe& weights);

}  // namespace tilewright
