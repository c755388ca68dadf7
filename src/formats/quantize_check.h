// What can be wrong with a call to quantize or dequantize, in the caller's words.
#pragma once

#include <tilewright/quantize.h>

#include <vector>

namespace tilewright::formats {

std::vector<Finding> check_quantize(const Tensor& source, const QuantizeOptions& options, const Operand& out);
/// Without `out`: into memory of the right shape.
std::vector<Finding> check_quantize(const Tensor& source, const QuantizeOptions& options);
std::vector<Finding> check_dequantize(const Operand& operand, const Tensor& out);
std::vector<Finding> check_owned(const Dims& shape, const OperandRecipe& recipe);

}  // namespace tilewright::formats
