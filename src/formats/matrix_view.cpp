#include "formats/matrix_view.h"

#include "formats/convert.h"

#include <algorithm>
#include <cstring>

namespace tilewright::formats {
namespace {

using Codes = std::array<std::byte, Tile::max_columns * 4>;

template <std::size_t width>
void gather(const std::byte* source, std::int64_t stride, std::int64_t count, std::byte* out) {
    const auto step = stride * static_cast<std::int64_t>(width);
    for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(out + i * static_cast<std::int64_t>(width), source + i * step, width);
    }
}

template <std::size_t width>
void scatter(const std::byte* source, std::int64_t count, std::byte* out, std::int64_t stride) {
    const auto step = stride * static_cast<std::int64_t>(width);
    for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(out + i * step, source + i * static_cast<std::int64_t>(width), width);
    }
}

void gather_row(const MatrixView& view, const std::byte* first, std::int64_t count, float* out) {
    Codes codes;
    switch (bits(view.format)) {
        case 8: gather<1>(first, view.column_stride, count, codes.data()); break;
        case 16: gather<2>(first, view.column_stride, count, codes.data()); break;
        default: gather<4>(first, view.column_stride, count, codes.data()); break;
    }
    decode(view.format, codes.data(), count, out);
}

void scatter_row(const MatrixView& view, const float* source, std::int64_t count, std::byte* first, Overflow overflow) {
    Codes codes;
    encode(view.format, source, count, codes.data(), overflow);
    switch (bits(view.format)) {
        case 8: return scatter<1>(codes.data(), count, first, view.column_stride);
        case 16: return scatter<2>(codes.data(), count, first, view.column_stride);
        default: return scatter<4>(codes.data(), count, first, view.column_stride);
    }
}

}  // namespace

MatrixView matrix_view(const Tensor& tensor) {
    const int rank = tensor.shape.rank();
    const bool grouped = rank == 3;
    return {.data = static_cast<std::byte*>(tensor.data),
            .format = tensor.format,
            .groups = grouped ? tensor.shape[0] : 1,
            .rows = tensor.shape[rank - 2],
            .columns = tensor.shape[rank - 1],
            .group_stride = grouped ? tensor.strides[0] : 0,
            .row_stride = tensor.strides[rank - 2],
            .column_stride = tensor.strides[rank - 1]};
}

void load(const MatrixView& view, const Region& region, Tile& tile) {
    if (!view.has_contiguous_columns() && view.has_contiguous_rows()) {
        std::array<float, Tile::max_rows> run;
        for (std::int64_t j = 0; j < region.columns; ++j) {
            decode(view.format, view.at(region.group, region.row, region.column + j), region.rows, run.data());
            for (std::int64_t i = 0; i < region.rows; ++i) tile.row(i)[j] = run[static_cast<std::size_t>(i)];
        }
        return;
    }
    for (std::int64_t i = 0; i < region.rows; ++i) {
        const std::byte* first = view.at(region.group, region.row + i, region.column);
        if (view.has_contiguous_columns()) {
            decode(view.format, first, region.columns, tile.row(i));
        } else {
            gather_row(view, first, region.columns, tile.row(i));
        }
    }
}

void store(const Tile& tile, const Region& region, const MatrixView& view, Overflow overflow) {
    if (!view.has_contiguous_columns() && view.has_contiguous_rows()) {
        std::array<float, Tile::max_rows> run;
        for (std::int64_t j = 0; j < region.columns; ++j) {
            for (std::int64_t i = 0; i < region.rows; ++i) run[static_cast<std::size_t>(i)] = tile.row(i)[j];
            encode(view.format, run.data(), region.rows, view.at(region.group, region.row, region.column + j),
                   overflow);
        }
        return;
    }
    for (std::int64_t i = 0; i < region.rows; ++i) {
        std::byte* first = view.at(region.group, region.row + i, region.column);
        if (view.has_contiguous_columns()) {
            encode(view.format, tile.row(i), region.columns, first, overflow);
        } else {
            scatter_row(view, tile.row(i), region.columns, first, overflow);
        }
    }
}

Region Regions::operator[](std::int64_t index) const {
    const std::int64_t row = index / chunks() % strips() * strip_rows;
    const std::int64_t column = index % chunks() * Tile::max_columns;
    return {.group = index / chunks() / strips(),
            .row = row,
            .column = column,
            .rows = std::min(strip_rows, rows - row),
            .columns = std::min(Tile::max_columns, columns - column)};
}

}  // namespace tilewright::formats
