// The shapes of a linear layer's operands, and every mistake in a call, in the caller's words.
#pragma once

#include <tilewright/error.h>
#include <tilewright/linear.h>

#include <vector>

namespace tilewright {

/// The shapes of a transposed operand of wgrad. Without groups its columns are those of one group: their number is a
/// multiple of 128, as TMA needs it.
OperandShape transposed_shape(const OperandRecipe& recipe, std::int64_t tokens, std::int64_t features,
                              std::int64_t groups);

std::vector<Finding> check(const LinearForward& call);
std::vector<Finding> check(const LinearBackward& call);

}  // namespace tilewright
