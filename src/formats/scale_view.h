// The scales of an operand, found by the element that they belong to.
#pragma once

#include "formats/element.h"

#include <tilewright/recipe.h>
#include <tilewright/tensor.h>

#include <cstdint>

namespace tilewright::formats {

/// Scales by the element they belong to.
struct ScaleView {
    void* data = nullptr;
    Format format = Format::f32;
    std::int64_t group_stride = 0;
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 0;
    int row_block = 0;  // 0: one scale for all rows
    int k_block = 0;    // 0: one scale for all of k

    ScaleView(const Tensor& scales, Granularity granularity)
        : data(scales.data),
          format(scales.format),
          row_block(tilewright::row_block(granularity)),
          k_block(tilewright::k_block(granularity)) {
        int dim = scales.shape.rank() - 1;
        if (k_block > 0) column_stride = scales.strides[dim--];
        if (row_block > 0) row_stride = scales.strides[dim--];
        // One scale for all groups has a stride that is never used.
        if (dim == 0 && scales.shape[0] > 1) group_stride = scales.strides[0];
    }

    std::int64_t index(std::int64_t group, std::int64_t row, std::int64_t column) const {
        return group * group_stride + (row_block > 0 ? row / row_block * row_stride : 0) +
               (k_block > 0 ? column / k_block * column_stride : 0);
    }
    double get(std::int64_t group, std::int64_t row, std::int64_t column) const {
        return data == nullptr ? 1 : load(data, format, index(group, row, column));
    }
    void set(std::int64_t group, std::int64_t row, std::int64_t column, double value) const {
        store(data, format, index(group, row, column), value);
    }
};

}  // namespace tilewright::formats
