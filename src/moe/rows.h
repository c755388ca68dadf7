// Matrices of rows on the CPU: addresses, numbers as f32, and which rows exist.
#pragma once

#include "moe/steps.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright::moe {

/// [rows, columns], or [E, room, columns] as E * room rows.
class Rows {
public:
    explicit Rows(const Tensor& tensor);
    /// The rows of all ranks, if there are ranks.
    Rows(const Tensor& tensor, const RankMemory& ranks);
    /// Scales of the rows of a matrix, one or more per row: the tensor has the matrix' dimensions, or none for columns.
    static Rows of_scales(const Tensor& scales, const Tensor& matrix, const RankMemory& ranks = {});

    std::int64_t count() const { return groups_ * room_; }
    std::int64_t columns() const { return columns_; }
    std::byte* at(std::int64_t row, std::int64_t column = 0) const {
        const std::int64_t group = row / room_;
        const std::int64_t index = group * group_stride_ + row % room_ * row_stride_ + column * column_stride_;
        return data_ + index * bits_ / 8 + (shifts_.empty() ? 0 : shifts_[static_cast<std::size_t>(group)]);
    }
    /// Bytes of an element, and of a row without gaps.
    std::int64_t element_bytes() const { return bits_ / 8; }
    std::int64_t row_bytes() const { return (columns_ * bits_ + 7) / 8; }

    // The numbers of a row are adjacent.
    /// Decodes a row to f32, exactly.
    void load(std::int64_t row, float* out) const;
    /// Encodes a row, rounded to nearest.
    void store(const float* numbers, std::int64_t row) const;

private:
    Rows() = default;

    std::byte* data_ = nullptr;
    Format format_ = Format::f32;
    std::int64_t bits_ = 32;
    std::int64_t groups_ = 1;
    std::int64_t room_ = 1;
    std::int64_t columns_ = 1;
    std::int64_t group_stride_ = 0;
    std::int64_t row_stride_ = 0;
    std::int64_t column_stride_ = 0;
    std::vector<std::int64_t> shifts_{};  // in bytes, of each group; empty: none
};

/// A number per row, or per choice of a row: factors, weights and places. Factors that are not given are 1.
class RowNumbers {
public:
    /// [rows, choices].
    static RowNumbers by_choice(const Tensor& tensor);
    /// [rows] or [E, room].
    static RowNumbers by_row(const Tensor& tensor);

    /// 1 for further choices.
    float factor(std::int64_t row, std::int64_t choice = 0) const;
    std::int64_t integer(std::int64_t row, std::int64_t choice) const;
    std::int64_t choices() const { return choices_; }
    bool given() const { return choices_ > 0; }

private:
    std::int64_t index(std::int64_t row, std::int64_t choice) const {
        return row / room_ * group_stride_ + row % room_ * row_stride_ + choice * choice_stride_;
    }

    const void* data_ = nullptr;
    Format format_ = Format::f32;
    std::int64_t choices_ = 0;
    std::int64_t room_ = 1;  // rows of a group
    std::int64_t group_stride_ = 0;
    std::int64_t row_stride_ = 0;
    std::int64_t choice_stride_ = 0;
};

/// For each of `rows` rows of a matrix with `room` rows per group: whether it exists.
std::vector<char> existing(const ExistingRows& given, std::int64_t rows, std::int64_t room);

/// Rows of a group: the size of the last dimension but one.
inline std::int64_t room_of(const Tensor& matrix) { return matrix.shape[matrix.shape.rank() - 2]; }

/// f32 rows in host memory, of the shape of a matrix.
class StagedRows {
public:
    explicit StagedRows(const Dims& shape);
    float* row(std::int64_t index) { return numbers_.data() + index * tensor_.shape[tensor_.shape.rank() - 1]; }
    const Tensor& tensor() const { return tensor_; }

private:
    std::vector<float> numbers_;  // zeros at first
    Tensor tensor_;
};

}  // namespace tilewright::moe
