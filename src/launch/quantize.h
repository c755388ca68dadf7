// What the quantisers' kernels are launched with. A call with scales of one for a tensor, a token or a feature is four
// launches, any other is one. No CUDA.
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
    finish_tensor_scales
};

/// What names a kernel.
struct QuantizeKernel {
    QuantizeStep step = QuantizeStep::quantize;
    hopper::Quantizer quantizer{};  // of measure and quantize
    hopper::CopySpec copy{};        // of clear_scales and finish_scales
    hopper::TransposeSpec transposition{};
    hopper::DecodeSpec decoding{};
    hopper::BlockSpec blocks{};                              // of quantize_blocks and finish_tensor_scales
    hopper::Storage weights = hopper::Storage::packed_e2m1;  // of expand_weights

    bool operator==(const QuantizeKernel&) const = default;
};

struct QuantizeLaunch {
    QuantizeKernel kernel{};
    hopper::QuantizeArguments arguments{};  // of measure and quantize
    hopper::MeasuredScales scales{};        // of clear_scales, finish_scales and finish_tensor_scales
    hopper::TransposeArguments transposition{};
    hopper::DecodeArguments decoding{};
    hopper::ExpandArguments expansion{};
    hopper::BlockArguments short_blocks{};
    int blocks = 0;
};

/// In the order in which they run, one after another; none where there is nothing to write. For calls in which
/// `check_quantize_tokens` or `check_quantize` finds nothing.
std::vector<QuantizeLaunch> lower(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                                  bool round_up);
/// A matrix without groups of tokens, or several; the dimension that is adjacent in memory is the features.
std::vector<QuantizeLaunch> lower(const Tensor& source, const Operand& out, bool round_up);

/// For calls in which `check_transpose_codes` finds nothing.
std::vector<QuantizeLaunch> lower_transposition(const Operand& rows, const Tensor& ends, const Operand& columns);

/// Whether kernels serve the call: values with scales that they find, and no more elements than their indices count.
/// What they do not serve in words; nothing otherwise.
std::string unserved(const Tensor& source, const QuantizeOptions& options);
std::string unserved(const Tensor& x, std::int64_t columns);

/// "tilewright::hopper::quantize<tilewright::hopper::Quantizer{...}>"
std::string kernel_expression(const QuantizeKernel& kernel);
int shared_bytes(const QuantizeKernel& kernel);
/// What the kernel pack holds, so that the quantisers of common calls wait for no compiler: e4m3 from bf16, aligned.
std::vector<QuantizeKernel> shipped_quantizers();
/// Takes QuantizeArguments; those of scales take MeasuredScales, all others each its own.
constexpr bool reads_tiles(const QuantizeKernel& kernel) {
    return kernel.step == QuantizeStep::measure || kernel.step == QuantizeStep::quantize;
}

/// The program that these expressions are instantiations of.
inline constexpr const char* quantize_source =
    "#include \"hopper/quantize/quantize.h\"\n#include \"hopper/quantize/transpose.h\"\n"
    "#include \"hopper/quantize/decode.h\"\n#include \"hopper/quantize/expand.h\"\n"
    "#include \"hopper/quantize/short_blocks.h\"\n"
    "#include \"hopper/ptx/ptx_numbers_sm90.h\"\n";

}  // namespace tilewright::launch
