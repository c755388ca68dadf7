#include "launch/quantize_blocks.h"

#include <cstdint>
#include <utility>

#include "base/math.h"
#include "formats/matrix_view.h"
#include "launch/quantize_views.h"

namespace tilewright::launch {
namespace {

using namespace hopper;
using formats::matrix_view;
using formats::MatrixView;

constexpr std::int64_t most_indices = std::int64_t{1} << 30;  // rows, columns, and tiles

BlockFormat block_format(const Operand& out) {
    if (out.granularity == Granularity::block_1x16) return BlockFormat::nvfp4;
    if (out.values.format == Format::e2m1) return BlockFormat::mxfp4;
    return out.values.format == Format::e5m2 ? BlockFormat::mxfp8_e5m2 : BlockFormat::mxfp8_e4m3;
}

/// Whether 16 values are stored at once; e2m1 in 8 bytes.
bool stores_vectors(const CopyArguments& to, bool is_fp4) {
    constexpr std::int64_t codes = lane_features;
    return is_aligned(to.codes, is_fp4 ? codes / 2 : codes) && to.feature_stride == 1 && to.token_stride % codes == 0 &&
           to.group_stride % codes == 0;
}

/// The operand. Its scales are [rows, blocks of k] or [groups, rows, blocks of k].
CopyArguments operand(const Operand& out) {
    const MatrixView values = matrix_view(out.values);
    return {.codes = reinterpret_cast<u8*>(values.data),
            .group_stride = values.group_stride,
            .token_stride = values.row_stride,
            .feature_stride = values.column_stride,
            .columns = 0,
            .scales = {.data = out.scales.data,
                       .group_stride = stride(out.scales, 2),
                       .token_stride = stride(out.scales, 1),
                       .feature_stride = stride(out.scales, 0)},
            .factors = {}};
}

/// The fields that all matrices share. The strides of dimensions of one index have no effect.
QuantizeArguments grid(MatrixView x) {
    if (x.groups == 1) x.group_stride = 0;
    if (x.rows == 1) x.row_stride = 0;
    QuantizeArguments arguments;
    arguments.x = source_matrix(x);
    arguments.groups = static_cast<int>(x.groups);
    arguments.tokens = static_cast<int>(x.rows);
    arguments.features = static_cast<int>(x.columns);
    return arguments;
}

std::int64_t tiles(const MatrixView& x) {
    return x.groups * ceil_div<std::int64_t>(x.rows, short_tile_rows(number(x.format))) *
           ceil_div<std::int64_t>(x.columns, short_tile_k);
}

QuantizeLaunch quantize_blocks(const MatrixView& x, const Operand& out, bool round_up) {
    QuantizeLaunch launch{.kernel = {.step = QuantizeStep::quantize_blocks}};
    BlockSpec& spec = launch.kernel.blocks;
    BlockArguments& arguments = launch.short_blocks;
    spec = {.source = number(x.format), .format = block_format(out), .round_up = round_up};
    arguments.grid = grid(x);
    arguments.grid.rows = operand(out);
    arguments.grid.feature_tiles = ceil_div(arguments.grid.features, short_tile_k);
    arguments.row_tiles = ceil_div(arguments.grid.tokens, short_tile_rows(spec.source));
    arguments.tensor_scales = {.data = out.tensor_scale.data, .group_stride = stride(out.tensor_scale, 0)};
    CopyArguments& to = arguments.grid.rows;
    if (x.groups == 1) to.group_stride = 0;
    // If both dimensions could be packed, it is k.
    arguments.pairs_of_rows = is_fp4(spec) && (to.feature_stride != 1 || x.columns % 2 != 0);
    if (x.rows == 1) to.token_stride = 0;
    spec.vectors = is_aligned(arguments.grid.x, bits(x.format) / 8) && x.columns % lane_features == 0 &&
                   stores_vectors(to, is_fp4(spec));
    launch.blocks = static_cast<int>(tiles(x));
    return launch;
}

/// Finds the largest magnitude of each tensor, by the kernel that finds those of per-tensor scales.
QuantizeLaunch measure(MatrixView x, const ScaleMatrix& scales) {
    if (x.row_stride == 1 && x.column_stride != 1) {  // features are adjacent in memory
        std::swap(x.rows, x.columns);
        std::swap(x.row_stride, x.column_stride);
    }
    QuantizeLaunch launch{.kernel = {.step = QuantizeStep::measure}};
    QuantizeArguments& arguments = launch.arguments;
    arguments = grid(x);
    arguments.rows.scales = scales;
    arguments.feature_tiles = ceil_div(arguments.features, quantize_block);
    arguments.strips = ceil_div(arguments.tokens, quantize_block);
    launch.kernel.quantizer = {.source = number(x.format),
                               .vectors = is_aligned(arguments.x, bits(x.format) / 8) && x.columns % lane_features == 0,
                               .rows = {.scaled = ScaledBy::all}};
    launch.blocks = arguments.groups * arguments.strips * arguments.feature_tiles;
    return launch;
}

}  // namespace

std::vector<QuantizeLaunch> lower_short_blocks(const Tensor& source, const Operand& out, bool round_up) {
    const MatrixView x = matrix_view(source);
    std::vector<QuantizeLaunch> launches;
    const QuantizeLaunch quantizing = quantize_blocks(x, out, round_up);
    if (out.granularity == Granularity::block_1x16) {
        const ScaleMatrix& scales = quantizing.short_blocks.tensor_scales;
        QuantizeLaunch step{.kernel = {.step = QuantizeStep::clear_scales}};
        step.scales = {.scales = scales, .groups = static_cast<int>(out.tensor_scale.shape[0])};
        step.blocks = ceil_div(step.scales.groups, quantize_threads);
        launches.push_back(step);
        launches.push_back(measure(x, scales));
        step.kernel = {.step = QuantizeStep::finish_tensor_scales};
        step.kernel.blocks.round_up = round_up;
        launches.push_back(step);
    }
    launches.push_back(quantizing);
    std::erase_if(launches, [](const QuantizeLaunch& launch) { return launch.blocks == 0; });
    return launches;
}

std::string unserved_short_blocks(const Tensor& source) {
    const MatrixView x = matrix_view(source);
    if (x.rows > most_indices || x.columns > most_indices || tiles(x) > most_indices) {
        return "at most 2^30 rows and columns and 2^30 tiles of 16 x 512";
    }
    return unserved(source, std::int64_t{0});  // the measuring kernel's
}

}  // namespace tilewright::launch
