// The combinations of a kernel's fields that have a meaning, whatever the call and the device. legality.h adds the
// rules that depend on these. No rule says which operands go together, because kernel_class.h takes both sides from a
// recipe.
#pragma once

#include "hopper/description/kernel.h"

namespace tilewright::planner {

/// Whether a side's scales multiply the sum of each k-block, one per row.
constexpr bool has_1x128_scales(const hopper::Side& side, ScaleUse use) {
    return use == ScaleUse::chains && side.scale_rows == 1 && side.scale_k == 128;
}

/// Why the fields contradict each other, or null.
const char* contradiction(const hopper::Kernel& kernel);

}  // namespace tilewright::planner
