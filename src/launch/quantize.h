// The launches of the quantizers' kernels. A call with scales per tensor, token or feature is four launches, any other
// is one. No CUDA.
#pragma once

#include <tilewright/quantize_tokens.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::launch {

enum class QuantizeStep : std::uint8_t {
    clear_scales,
    measure,
    finish_scales,
    quantize,
    transpose_codes,
    decode_codes,
    expand_weights,
    quantize_blocks,
    finish_tensor_scales,
    finish_groups
};

/// The parameters that name a kernel.
struct QuantizeKernel {
    QuantizeStep step = QuantizeStep::quantize;
    hopper::Quantizer quantizer{};  // For measure and quantize.
    hopper::CopySpec copy{};        // For clear_scales and finish_scales.
    hopper::TransposeSpec transposition{};
    hopper::DecodeSpec decoding{};
    hopper::BlockSpec blocks{};                                    // For quantize_blocks and finish_tensor_scales.
    hopper::Expansion weights = hopper::Expansion::mxfp4_to_e4m3;  // For expand_weights.

    bool operator==(const QuantizeKernel&) const = default;
};

struct QuantizeLaunch {
    QuantizeKernel kernel{};
    hopper::QuantizeArguments arguments{};  // For measure and quantize.
    hopper::MeasuredScales scales{};        // For clear_scales, finish_scales and finish_tensor_scales.
    hopper::TransposeArguments transposition{};
    hopper::DecodeArguments decoding{};
    hopper::ExpandArguments expansion{};
    hopper::BlockArguments short_blocks{};
    hopper::GroupArguments groups{};
    int blocks = 0;
};

/// The launches in their order, one after another; none if there is nothing to write. For calls without findings of
/// `check_quantize_tokens` or `check_quantize`.
std::vector<QuantizeLaunch> lower(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                                  bool round_up);
/// One matrix or several, without groups of tokens. The dimension that is adjacent in memory is the features.
std::vector<QuantizeLaunch> lower(const Tensor& source, const Operand& out, bool round_up);

/// For calls without findings of `check_transpose_codes`.
std::vector<QuantizeLaunch> lower_transposition(const Operand& rows, const Tensor& ends, const Operand& columns);

/// Prepares the products of `tokens` tokens whose groups end at `ends` (not given: one group).
///
/// - column_ends: int32 [groups], the ends of the groups' columns, as `quantize_tokens` places them.
/// - d: its rows that belong to no group are set to zeros.
///
/// Each output may be not given. No launch if nothing is to be done.
std::vector<QuantizeLaunch> lower_groups(const Tensor& ends, std::int64_t tokens, const Tensor& column_ends,
                                         const Tensor& d);

/// The reason that kernels do not serve the call, in words; empty if they do. They serve values with scales that they
/// find, and at most as many elements as their indices count.
std::string unserved(const Tensor& source, const QuantizeOptions& options);
std::string unserved(const Tensor& x, std::int64_t columns);
std::string unserved(const TokenSource& source, std::int64_t columns);

/// "tilewright::hopper::quantize<tilewright::hopper::Quantizer{...}>"
std::string kernel_expression(const QuantizeKernel& kernel);
int shared_bytes(const QuantizeKernel& kernel);
/// The quantizers of the kernel pack, so that common calls do not wait for a compiler: e4m3 from bf16, aligned.
std::vector<QuantizeKernel> shipped_quantizers();
/// Whether the kernel takes QuantizeArguments. Kernels for scales take MeasuredScales, and each other kernel its own
/// type.
constexpr bool reads_tiles(const QuantizeKernel& kernel) {
    return kernel.step == QuantizeStep::measure || kernel.step == QuantizeStep::quantize;
}

/// The program of which these expressions are instantiations.
inline constexpr const char* quantize_source =
    "#include \"hopper/quantize/quantize.h\"\n#include \"hopper/prepare/transpose.h\"\n"
    "#include \"hopper/prepare/decode.h\"\n#include \"hopper/prepare/expand.h\"\n"
    "#include \"hopper/quantize/short_blocks.h\"\n#include \"hopper/quantize/finish_groups.h\"\n"
    "#include \"hopper/ptx/ptx_numbers_sm90.h\"\n";

}  // namespace tilewright::launch
