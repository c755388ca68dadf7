// The quantizers on the CPU, for calls in which the checks find nothing; src/api/quantize.cpp is who decides where a
// call runs.
#pragma once

#include <tilewright/packed.h>
#include <tilewright/quantize_tokens.h>

namespace tilewright::formats {

void quantize_on_cpu(const Tensor& source, const QuantizeOptions& options, const Operand& out,
                     const ConversionOptions& how);
void quantize_tokens_on_cpu(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                            bool round_up, const ConversionOptions& how);

void transpose_codes_on_cpu(const Operand& rows, const Tensor& ends, const Operand& columns,
                            const ConversionOptions& how);

/// As launch::lower_groups says.
void finish_groups_on_cpu(const Tensor& ends, std::int64_t tokens, const Tensor& column_ends, const Tensor& d);

/// Packing: the weights are in host memory, and `out` too.
std::int64_t packed_bytes_on_cpu(const Operand& weights, PackedFor activations);
PackedWeights pack_on_cpu(const Operand& weights, PackedFor activations, void* out, std::int64_t bytes,
                          const ConversionOptions& how);
OwnedPackedWeights pack_on_cpu(const Operand& weights, PackedFor activations, const ConversionOptions& how);
/// Throws Error if the memory that is given for packed weights is not exactly as long as they are.
void check_packed_bytes(const void* out, std::int64_t given, std::int64_t expected);

}  // namespace tilewright::formats
