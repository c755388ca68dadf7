// Quantizers, wherever the tensors are: checked, then run on the CPU or lowered to kernels.
#include <tilewright/quantize_tokens.h>

#include <string>

#include "api/call_memory.h"
#include "cuda/backend.h"
#include "formats/quantize_check.h"
#include "formats/quantize_cpu.h"
#include "formats/quantize_tokens_check.h"
#include "launch/quantize.h"

namespace tilewright {
namespace {

/// `given`: makes the text of what was given, only if it is refused.
template <class Given>
void require_served(const char* operand, const Given& given, const std::string& served) {
    if (!served.empty()) require_none({{operand, given(), served + " on a GPU", "quantize on the host"}});
}

}  // namespace

void quantize(const Tensor& source, const QuantizeOptions& options, const Operand& out, const ConversionOptions& how) {
    require_none(formats::check_quantize(source, options, out));
    if (!is_on_gpu(source)) return formats::quantize_on_cpu(source, options, out, how);
    const auto given = [&] {
        return name(options.recipe) + (options.deep_gemm ? " by DeepGEMM's rules" : "") + " of " +
               to_string(source.shape);
    };
    require_served("options.recipe", given, launch::unserved(source, options));
    cuda::run(launch::lower(source, out, options.round_up), source.device.index, how.stream);
}

void quantize_tokens(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns, bool round_up,
                     const ConversionOptions& how) {
    require_none(formats::check_quantize_tokens(source, rows, columns));
    if (!is_on_gpu(source.x)) return formats::quantize_tokens_on_cpu(source, rows, columns, round_up, how);
    const Tensor& turned = columns.operand.values;
    require_served(
        "source.x", [&] { return to_string(source.x.shape); },
        launch::unserved(source, turned.given() ? turned.shape[1] : 0));
    cuda::run(launch::lower(source, rows, columns, round_up), source.x.device.index, how.stream);
}

void transpose_codes(const Operand& rows, const Tensor& ends, const Operand& columns, const ConversionOptions& how) {
    require_none(formats::check_transpose_codes(rows, ends, columns));
    if (!is_on_gpu(rows.values)) return formats::transpose_codes_on_cpu(rows, ends, columns, how);
    require_served(
        "rows.values", [&] { return to_string(rows.values.shape); },
        launch::unserved(rows.values, columns.values.shape[1]));
    cuda::run(launch::lower_transposition(rows, ends, columns), rows.values.device.index, how.stream);
}

}  // namespace tilewright
