// The checks of quantize, dequantize, encode and decode; findings are in the caller's words.
#pragma once

#include <tilewright/quantize.h>

#include <string>
#include <vector>

namespace tilewright::formats {

/// "host memory", "memory of cuda:0"
std::string memory_of(const DeviceId& device);

bool is_empty(const Dims& shape);

/// Elements of a tensor that is written may share memory: its strides do not nest.
bool overlaps(const Tensor& tensor);

std::vector<Finding> check_quantize(const Tensor& source, const QuantizeOptions& options, const Operand& out);
/// Without `out`: into memory of the right shape.
std::vector<Finding> check_quantize(const Tensor& source, const QuantizeOptions& options);
std::vector<Finding> check_dequantize(const Operand& operand, const Tensor& out);
/// For encode (`out` holds the codes) and decode (`source` does).
std::vector<Finding> check_encode(const Tensor& source, const Tensor& out);
std::vector<Finding> check_decode(const Tensor& source, const Tensor& out);
/// FP4 weights for pack_weights.
std::vector<Finding> check_packable(const Operand& weights);
/// Memory for unpack_weights.
std::vector<Finding> check_unpacked(const PackedWeights& packed, const Operand& out);
std::vector<Finding> check_owned(const Dims& shape, const OperandRecipe& recipe);

}  // namespace tilewright::formats
