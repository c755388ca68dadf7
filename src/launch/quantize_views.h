// Tensors in the form that the quantizers' kernels take.
#pragma once

#include <tilewright/tensor.h>

#include <cstdint>

#include "base/math.h"
#include "formats/matrix_view.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::launch {

inline constexpr std::int64_t vector_bytes = 16;

/// The most rows, columns, and tiles or parts of a matrix that kernels count by int.
inline constexpr std::int64_t most_indices = std::int64_t{1} << 30;

inline bool is_aligned(const void* data, std::int64_t bytes = vector_bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
}

inline bool is_aligned(const hopper::SourceMatrix& matrix, std::int64_t bytes) {
    return is_aligned(matrix.data) && matrix.feature_stride == 1 && matrix.token_stride * bytes % vector_bytes == 0 &&
           matrix.group_stride * bytes % vector_bytes == 0;
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

/// Sets the sizes of each group, in tiles of 128 x 128.
inline void set_sizes(hopper::QuantizeArguments& grid, std::int64_t tokens, std::int64_t features) {
    grid.tokens = static_cast<int>(tokens);
    grid.features = static_cast<int>(features);
    grid.strips = ceil_div(grid.tokens, hopper::quantize_block);
    grid.feature_tiles = ceil_div(grid.features, hopper::quantize_block);
}

}  // namespace tilewright::launch
