// The launches of the quantizers' kernels. A call with scales per tensor, token or feature is four launches. So is
// NVFP4, whose tensor scale is found first. Any other is one. No CUDA.
#pragma once

#include <tilewright/quantize_tokens.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launch/kernels.h"

namespace tilewright::launch {

/// The launches in their order, one after another; none if there is nothing to write. For calls without findings of
/// `check_quantize_tokens` or `check_quantize`.
std::vector<OtherLaunch> lower(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                               bool round_up);
/// One matrix or several, without groups of tokens. The dimension that is adjacent in memory is the features.
std::vector<OtherLaunch> lower(const Tensor& source, const Operand& out, bool round_up);

/// For calls without findings of `check_transpose_codes`.
std::vector<OtherLaunch> lower_transposition(const Operand& rows, const Tensor& ends, const Operand& columns);

/// Prepares the products of `tokens` tokens whose groups end at `ends` (not given: one group).
///
/// - column_ends: int32 [groups], the ends of the groups' columns, as `quantize_tokens` places them.
/// - d: its rows that belong to no group are set to zeros.
///
/// Each output may be not given. No launch if nothing is to be done.
std::vector<OtherLaunch> lower_groups(const Tensor& ends, std::int64_t tokens, const Tensor& column_ends,
                                      const Tensor& d);

/// The reason that kernels do not serve the call, in words; empty if they do. They serve values with scales that they
/// find, and at most as many elements as their indices count.
std::string unserved(const Tensor& source, const QuantizeOptions& options);
std::string unserved(const Tensor& x, std::int64_t columns);
std::string unserved(const TokenSource& source, std::int64_t columns);

}  // namespace tilewright::launch
