#include "launch/quantize_blocks.h"

#include <algorithm>
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

ScaleMatrix tensor_scales(const Operand& out) {
    return {.data = out.tensor_scale.data, .group_stride = stride(out.tensor_scale, 0)};
}

/// The fields that all matrices share. The strides of dimensions of one index have no effect.
QuantizeArguments grid(MatrixView x) {
    if (x.groups == 1) x.group_stride = 0;
    if (x.rows == 1) x.row_stride = 0;
    QuantizeArguments arguments;
    arguments.x = source_matrix(x);
    arguments.groups = static_cast<int>(x.groups);
    set_sizes(arguments, x.rows, x.columns);
    return arguments;
}

std::int64_t tiles(const MatrixView& x) {
    return x.groups * ceil_div<std::int64_t>(x.rows, short_tile_rows(number(x.format))) *
           ceil_div<std::int64_t>(x.columns, short_tile_k);
}

OtherLaunch quantize_blocks(const MatrixView& x, const Operand& out, bool round_up) {
    BlockSpec spec{.source = number(x.format), .format = block_format(out), .round_up = round_up};
    BlockArguments arguments;
    arguments.grid = grid(x);
    arguments.grid.rows = operand(out);
    arguments.grid.feature_tiles = ceil_div(arguments.grid.features, short_tile_k);
    arguments.row_tiles = ceil_div(arguments.grid.tokens, short_tile_rows(spec.source));
    arguments.tensor_scales = tensor_scales(out);
    CopyArguments& to = arguments.grid.rows;
    if (x.groups == 1) to.group_stride = 0;
    // If both dimensions could be packed, it is k.
    arguments.pairs_of_rows = is_fp4(spec) && (to.feature_stride != 1 || x.columns % 2 != 0);
    if (x.rows == 1) to.token_stride = 0;
    spec.vectors = is_aligned(arguments.grid.x, bits(x.format) / 8) && x.columns % lane_features == 0 &&
                   stores_vectors(to, is_fp4(spec));
    return launch_of(QuantizeBlocks{spec}, arguments, static_cast<int>(tiles(x)));
}

/// Finds the largest magnitude of each tensor, by the kernel that finds those of per-tensor scales.
OtherLaunch measure(MatrixView x, const ScaleMatrix& scales) {
    if (x.row_stride == 1 && x.column_stride != 1) {  // features are adjacent in memory
        std::swap(x.rows, x.columns);
        std::swap(x.row_stride, x.column_stride);
    }
    QuantizeArguments arguments = grid(x);
    arguments.rows.scales = scales;
    const Measure kernel{{.source = number(x.format),
                          .vectors = is_aligned(arguments.x, bits(x.format) / 8) && x.columns % lane_features == 0,
                          .rows = {.scaled = ScaledBy::all}}};
    return launch_of(kernel, arguments, arguments.groups * arguments.strips * arguments.feature_tiles);
}

}  // namespace

std::vector<OtherLaunch> lower_short_blocks(const Tensor& source, const Operand& out, bool round_up) {
    const MatrixView x = matrix_view(source);
    std::vector<OtherLaunch> launches;
    if (out.granularity == Granularity::block_1x16) {
        const MeasuredScales scales{.scales = tensor_scales(out),
                                    .groups = static_cast<int>(out.tensor_scale.shape[0])};
        const int blocks = ceil_div(scales.groups, quantize_threads);
        launches.push_back(launch_of(ClearScales{}, scales, blocks));
        launches.push_back(measure(x, scales.scales));
        launches.push_back(launch_of(FinishTensorScales{{.round_up = round_up}}, scales, blocks));
    }
    launches.push_back(quantize_blocks(x, out, round_up));
    std::erase_if(launches, [](const OtherLaunch& launch) { return launch.blocks == 0; });
    return launches;
}

std::string unserved_short_blocks(const Tensor& source) {
    const MatrixView x = matrix_view(source);
    if (std::max({x.rows, x.columns, tiles(x)}) > most_indices) {
        return "at most 2^30 rows and columns and 2^30 tiles of 16 x 512";
    }
    return unserved(source, std::int64_t{0});  // the measuring kernel's
}

}  // namespace tilewright::launch
