// Tensors in the form that the quantizers' kernels take.
#pragma once

#include <tilewright/problem.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "base/math.h"
#include "formats/matrix_view.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::launch {

inline constexpr std::int64_t vector_bytes = 16;

/// The most rows, columns, and tiles or parts of a matrix that kernels count by int.
inline constexpr std::int64_t most_indices = std::int64_t{1} << 30;

/// Whether a matrix and its rows begin at multiples of `to` bytes. Strides are in bytes.
inline bool is_aligned(const void* data, std::initializer_list<std::int64_t> strides, std::int64_t to = vector_bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(to) == 0 &&
           std::ranges::all_of(strides, [&](std::int64_t stride) { return stride % to == 0; });
}

/// Whether lanes may load the rows of a matrix as vectors. `bytes`: of an element.
inline bool takes_vectors(const hopper::SourceMatrix& matrix, std::int64_t bytes) {
    return matrix.feature_stride == 1 &&
           is_aligned(matrix.data, {matrix.token_stride * bytes, matrix.group_stride * bytes});
}

inline hopper::Number number(Format format) {
    return format == Format::f32    ? hopper::Number::f32
           : format == Format::bf16 ? hopper::Number::bf16
                                    : hopper::Number::f16;
}

/// A stride counted from the tensor's last dimension; the tensor may have fewer dimensions.
inline std::int64_t stride(const Tensor& tensor, int from_last) {
    const int dim = tensor.shape.rank() - 1 - from_last;
    return dim >= 0 && tensor.shape[dim] > 1 ? tensor.strides[dim] : 0;
}

inline hopper::SourceMatrix source_matrix(const formats::MatrixView& view) {
    return {.data = view.data,
            .group_stride = view.group_stride,
            .token_stride = view.row_stride,
            .feature_stride = view.column_stride};
}

/// Dimensions of an operand's scales without groups.
inline int scale_dims(Granularity granularity) {
    return int(k_block(granularity) > 0) + int(row_block(granularity) > 0);
}

/// `turned`: the operand's rows are features, and not tokens.
inline hopper::ScaleMatrix scale_matrix(const Operand& operand, bool turned) {
    const Tensor& scales = operand.scales;
    const bool blocks = k_block(operand.granularity) > 0, rows = row_block(operand.granularity) > 0;
    const std::int64_t along_k = blocks ? stride(scales, 0) : 0;
    const std::int64_t along_rows = rows ? stride(scales, blocks ? 1 : 0) : 0;
    return {.data = scales.data,
            .group_stride = stride(scales, scale_dims(operand.granularity)),
            .token_stride = turned ? along_k : along_rows,
            .feature_stride = turned ? along_rows : along_k};
}

/// Sets the sizes of each group, in tiles of 128 x 128.
inline void set_sizes(hopper::QuantizeArguments& grid, std::int64_t tokens, std::int64_t features) {
    grid.tokens = static_cast<int>(tokens);
    grid.features = static_cast<int>(features);
    grid.strips = ceil_div(grid.tokens, hopper::quantize_block);
    grid.feature_tiles = ceil_div(grid.features, hopper::quantize_block);
}

}  // namespace tilewright::launch
