// The quantisers' kernels by name, and which calls they serve.
#include "launch/quantize.h"

#include "base/math.h"
#include "formats/matrix_view.h"
#include "launch/initializers.h"

namespace tilewright::launch {

using namespace hopper;
using formats::matrix_view;
using formats::MatrixView;

std::string unserved(const Tensor& x, std::int64_t columns) {
    constexpr std::int64_t limit = std::int64_t{1} << 30;
    const MatrixView view = matrix_view(x);
    const std::int64_t tiles =
        view.groups * ceil_div<std::int64_t>(view.rows, 128) * ceil_div<std::int64_t>(view.columns, 128);
    if (view.rows > limit || view.columns > limit || columns > limit || tiles > limit) {
        return "at most 2^30 rows and columns and 2^30 tiles of 128 x 128";
    }
    return "";
}

std::string unserved(const Tensor& source, const QuantizeOptions& options) {
    const Granularity granularity = options.recipe.granularity;
    const bool known = granularity == Granularity::tensor || granularity == Granularity::row ||
                       granularity == Granularity::block_1x128 || granularity == Granularity::block_128x128;
    if (!known || !is_fp8(options.recipe.values)) return "fp8 with tensor, row, 1x128 or 128x128 scales";
    if (options.deep_gemm) return "scales without DeepGEMM's rules";
    return unserved(source, std::int64_t{0});
}

std::string kernel_expression(const QuantizeKernel& kernel) {
    const std::string room = "tilewright::hopper::";
    Initializers all;
    if (reads_tiles(kernel)) {
        visit_fields(kernel.quantizer, all);
        const char* function = kernel.step == QuantizeStep::measure ? "measure" : "quantize";
        return room + function + "<" + room + "Quantizer{" + all.text() + "}>";
    }
    if (kernel.step == QuantizeStep::transpose_codes) {
        visit_fields(kernel.transposition, all);
        return room + "transpose_codes<" + room + "TransposeSpec{" + all.text() + "}>";
    }
    all.field("scaled", kernel.copy.scaled);
    all.field("storage", kernel.copy.storage);
    all.field("powers", kernel.copy.powers);
    const char* function = kernel.step == QuantizeStep::clear_scales ? "clear_scales" : "finish_scales";
    return room + function + "<" + room + "CopySpec{" + all.text() + "}>";
}

int shared_bytes(const QuantizeKernel& kernel) {
    return reads_tiles(kernel) || kernel.step == QuantizeStep::transpose_codes ? quantize_shared_bytes : 0;
}

}  // namespace tilewright::launch
