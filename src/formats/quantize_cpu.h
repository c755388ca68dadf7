// The quantisers on the CPU, for calls in which the checks find nothing; src/api/quantize.cpp is who decides where a
// call runs.
#pragma once

#include <tilewright/quantize_tokens.h>

namespace tilewright::formats {

void quantize_on_cpu(const Tensor& source, const QuantizeOptions& options, const Operand& out,
                     const ConversionOptions& how);
void quantize_tokens_on_cpu(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                            bool round_up, const ConversionOptions& how);

void transpose_codes_on_cpu(const Operand& rows, const Tensor& ends, const Operand& columns,
                            const ConversionOptions& how);

}  // namespace tilewright::formats
