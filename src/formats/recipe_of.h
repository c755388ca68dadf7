// The recipe of an operand: the form in which rules about formats take it.
#pragma once

#include <tilewright/problem.h>

namespace tilewright {

/// The recipe by which the values are quantized. Without scales their format has no meaning, whatever the empty
/// tensor's format is.
inline OperandRecipe recipe_of(const Operand& operand) {
    const bool scaleless = operand.granularity == Granularity::none;
    return {operand.values.format, operand.granularity, scaleless ? Format::f32 : operand.scales.format};
}

}  // namespace tilewright
