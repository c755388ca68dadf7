#include "moe/rows.h"

#include <algorithm>

#include "base/math.h"
#include "formats/convert.h"
#include "formats/element.h"

namespace tilewright::moe {
namespace {

std::int64_t clamp(std::int64_t value, std::int64_t low, std::int64_t high) {
    return std::min(std::max(value, low), high);
}

std::int64_t number_at(const Tensor& numbers, std::int64_t index) {
    return formats::load_integer(numbers.data, numbers.format, index * numbers.strides[0]);
}

}  // namespace

Rows::Rows(const Tensor& tensor) {
    const int rank = tensor.shape.rank();
    data_ = static_cast<std::byte*>(tensor.data);
    format_ = tensor.format;
    bits_ = bits(tensor.format);
    groups_ = rank == 3 ? tensor.shape[0] : 1;
    if (room_of(tensor) == 0) groups_ = 0;
    room_ = std::max<std::int64_t>(room_of(tensor), 1);
    columns_ = tensor.shape[rank - 1];
    group_stride_ = rank == 3 ? tensor.strides[0] : 0;
    row_stride_ = tensor.strides[rank - 2];
    column_stride_ = tensor.strides[rank - 1];
}

Rows::Rows(const Tensor& tensor, const RankMemory& ranks) : Rows(tensor) {
    if (!ranks.given()) return;
    groups_ = ranks.size;
    room_ = std::max<std::int64_t>(ranks.room, 1);
    group_stride_ = 0;
    shifts_.assign(ranks.shifts, ranks.shifts + ranks.size);
}

Rows Rows::of_scales(const Tensor& scales, const Tensor& matrix, const RankMemory& ranks) {
    if (scales.shape.rank() == matrix.shape.rank()) return Rows(scales, ranks);
    Tensor with_column = scales;
    with_column.shape.push_back(1);
    with_column.strides.push_back(0);
    return Rows(with_column, ranks);
}

void Rows::load(std::int64_t row, float* out) const { formats::decode(format_, at(row), columns_, out); }

void Rows::store(const float* numbers, std::int64_t row) const {
    formats::encode(format_, numbers, columns_, at(row), formats::Overflow::propagate);
}

RowNumbers RowNumbers::by_choice(const Tensor& tensor) {
    RowNumbers made;
    if (!tensor.given()) return made;
    made.data_ = tensor.data;
    made.format_ = tensor.format;
    made.choices_ = tensor.shape[1];
    made.group_stride_ = tensor.strides[0];
    made.choice_stride_ = tensor.strides[1];
    return made;
}

RowNumbers RowNumbers::by_row(const Tensor& tensor) {
    RowNumbers made;
    if (!tensor.given()) return made;
    const int rank = tensor.shape.rank();
    made.data_ = tensor.data;
    made.format_ = tensor.format;
    made.choices_ = 1;
    made.room_ = std::max<std::int64_t>(tensor.shape[rank - 1], 1);
    made.row_stride_ = tensor.strides[rank - 1];
    if (rank == 2) made.group_stride_ = tensor.strides[0];
    return made;
}

float RowNumbers::factor(std::int64_t row, std::int64_t choice) const {
    if (choice >= choices_) return 1;
    return static_cast<float>(formats::load(data_, format_, index(row, choice)));
}

std::int64_t RowNumbers::integer(std::int64_t row, std::int64_t choice) const {
    return formats::load_integer(data_, format_, index(row, choice));
}

std::vector<char> existing(const ExistingRows& given, std::int64_t rows, std::int64_t room) {
    std::vector<char> all(static_cast<std::size_t>(rows), given.ends.given() || given.counts.given() ? 0 : 1);
    const auto add = [&](std::int64_t begin, std::int64_t end) {
        if (begin < end) std::fill(all.begin() + begin, all.begin() + end, 1);
    };
    if (given.counts.given()) {
        for (std::int64_t group = 0; group < given.counts.shape[0]; ++group) {
            add(group * room, group * room + clamp(number_at(given.counts, group), 0, room));
        }
        return all;
    }
    std::int64_t end = 0;
    for (std::int64_t group = 0; given.ends.given() && group < given.ends.shape[0]; ++group) {
        const std::int64_t begin = std::min(round_up(end, given.alignment), rows);
        end = clamp(number_at(given.ends, group), begin, rows);
        add(begin, end);
    }
    return all;
}

StagedRows::StagedRows(const Dims& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    numbers_.resize(static_cast<std::size_t>(count));
    tensor_ = row_major(static_cast<void*>(numbers_.data()), Format::f32, shape);
}

}  // namespace tilewright::moe
