// Tensors of any strides, seen as [groups, rows, columns] and worked on in tiles of f32. Whole runs along the
// contiguous dimension, whichever it is, are converted at once.
#pragma once

#include "base/math.h"
#include "formats/codec.h"

#include <tilewright/tensor.h>

#include <array>
#include <cstdint>

namespace tilewright::formats {

/// [groups, rows, columns]; a tensor without a group dimension has one group.
struct MatrixView {
    std::byte* data = nullptr;
    Format format = Format::f32;
    std::int64_t groups = 1;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t group_stride = 0;
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 0;

    /// Address of an element; of e2m1, of the byte that holds it.
    std::byte* at(std::int64_t group, std::int64_t row, std::int64_t column) const {
        return data + (group * group_stride + row * row_stride + column * column_stride) * bits(format) / 8;
    }
    /// Which dimension is packed, of e2m1, or can be read in runs, of others.
    bool has_contiguous_columns() const {
        return column_stride == 1 && (format != Format::e2m1 || columns % 2 == 0 || row_stride != 1);
    }
    bool has_contiguous_rows() const { return row_stride == 1; }
};

/// The view of a tensor of two or three dimensions.
MatrixView matrix_view(const Tensor& tensor);

/// A rectangle within one group. In e2m1 it begins and ends at whole bytes.
struct Region {
    std::int64_t group = 0;
    std::int64_t row = 0;
    std::int64_t column = 0;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
};

/// A rectangle of numbers, 132 KiB: never on a stack. Rows are padded, so that a column does not fall into one set of
/// the cache.
struct Tile {
    static constexpr std::int64_t max_rows = 128;
    static constexpr std::int64_t max_columns = 256;  // a multiple of every scale block

    float* row(std::int64_t index) { return numbers.data() + index * (max_columns + 8); }
    const float* row(std::int64_t index) const { return numbers.data() + index * (max_columns + 8); }

    alignas(64) std::array<float, max_rows*(max_columns + 8)> numbers;
};

/// Decodes a region into the tile's upper left corner, exactly.
void load(const MatrixView& view, const Region& region, Tile& tile);

/// Encodes the tile's upper left corner into a region.
void store(const Tile& tile, const Region& region, const MatrixView& view, Overflow overflow);

/// A matrix cut into regions that fit a tile, `strip_rows` x 256, in row-major order.
struct Regions {
    std::int64_t groups;
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t strip_rows;

    Regions(const MatrixView& view, std::int64_t rows_of_a_strip)
        : groups(view.groups), rows(view.rows), columns(view.columns), strip_rows(rows_of_a_strip) {}
    std::int64_t strips() const { return ceil_div(rows, strip_rows); }
    std::int64_t chunks() const { return (columns + Tile::max_columns - 1) / Tile::max_columns; }
    std::int64_t count() const { return groups * strips() * chunks(); }
    Region operator[](std::int64_t index) const;
};

}  // namespace tilewright::formats
