// Every mistake in a call of a training step's quantizers, in the caller's words.
#pragma once

#include <tilewright/error.h>
#include <tilewright/quantize_tokens.h>

#include <vector>

namespace tilewright::formats {

std::vector<Finding> check_quantize_tokens(const TokenSource& source, const TokenOperand& rows,
                                           const TokenOperand& columns);
std::vector<Finding> check_transpose_codes(const Operand& rows, const Tensor& ends, const Operand& columns);

}  // namespace tilewright::formats
