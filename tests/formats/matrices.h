// Matrices that own their memory, in several memory orders, for the tests of the quantizers.
#pragma once

#include "formats/element.h"

#include <tilewright/quantize.h>

#include <cstring>
#include <random>
#include <vector>

namespace tilewright::formats {

enum class Order { row_major, transposed, spread };  // spread: gaps after every row and, except for e2m1, every element
inline constexpr Order all_orders[] = {Order::row_major, Order::transposed, Order::spread};

/// A tensor of any rank in the given order (a vector knows row_major and spread only), its memory filled with 0xCD.
class Matrix {
public:
    Matrix(Format format, const Dims& shape, Order order = Order::row_major) : shape_(shape) {
        tensor_ = row_major(static_cast<void*>(nullptr), format, shape);
        const int rank = shape.rank();
        const auto even = [](std::int64_t size) { return (size + 1) / 2 * 2; };
        if (order == Order::transposed && rank >= 2) {
            tensor_.strides[rank - 2] = 1;
            tensor_.strides[rank - 1] = even(shape[rank - 2]);
            if (rank == 3) tensor_.strides[0] = tensor_.strides[rank - 1] * shape[rank - 1];
        }
        if (order == Order::spread) {
            std::int64_t stride = format == Format::e2m1 ? 1 : 3;
            for (int i = rank - 1; i >= 0; --i) {
                tensor_.strides[i] = stride;
                stride = even(stride * shape[i]) + 6;
            }
        }
        std::int64_t elements = 1;
        for (int i = 0; i < rank; ++i) elements += std::max<std::int64_t>(shape[i] - 1, 0) * tensor_.strides[i];
        memory_.assign(static_cast<std::size_t>((elements * bits(format) + 7) / 8), std::byte{0xCD});
        tensor_.data = memory_.data();
    }
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;

    const Tensor& tensor() const { return tensor_; }
    const Dims& shape() const { return shape_; }

    double get(std::int64_t group, std::int64_t row, std::int64_t column) const {
        return load(tensor_.data, tensor_.format, index(group, row, column));
    }
    void set(std::int64_t group, std::int64_t row, std::int64_t column, double value) {
        store(tensor_.data, tensor_.format, index(group, row, column), value);
    }
    /// No byte was written but those of elements.
    bool gaps_are_untouched() const {
        std::vector<bool> used(memory_.size());
        const auto width = static_cast<std::size_t>(std::max(bits(tensor_.format), 8)) / 8;
        for (std::int64_t i = 0; i < groups() * rows() * columns(); ++i) {
            const std::int64_t element = index(i / columns() / rows(), i / columns() % rows(), i % columns());
            const auto byte = static_cast<std::size_t>(element * bits(tensor_.format) / 8);
            for (std::size_t b = 0; b < width; ++b) used[byte + b] = true;
        }
        for (std::size_t i = 0; i < memory_.size(); ++i) {
            if (!used[i] && memory_[i] != std::byte{0xCD}) return false;
        }
        return true;
    }
    std::int64_t groups() const { return shape_.rank() == 3 ? shape_[0] : 1; }
    std::int64_t rows() const { return shape_[shape_.rank() - 2]; }
    std::int64_t columns() const { return shape_[shape_.rank() - 1]; }

    template <class Generator>
    void fill(Generator generator) {
        for (std::int64_t g = 0; g < groups(); ++g) {
            for (std::int64_t i = 0; i < rows(); ++i) {
                for (std::int64_t j = 0; j < columns(); ++j) set(g, i, j, generator());
            }
        }
    }

    /// Normal numbers whose size differs from row to row by powers of ten, with some zeros.
    void fill_randomly(unsigned seed) {
        std::mt19937 random(seed);
        std::normal_distribution<double> normal;
        std::int64_t count = 0;
        fill([&] {
            const double size =
                std::pow(10.0, static_cast<double>(count++ / std::max<std::int64_t>(columns(), 1) % 5) - 2);
            return random() % 8 == 0 ? 0.0 : normal(random) * size;
        });
    }

private:
    std::int64_t index(std::int64_t group, std::int64_t row, std::int64_t column) const {
        const int rank = shape_.rank();
        return (rank == 3 ? group * tensor_.strides[0] : 0) + row * tensor_.strides[rank - 2] +
               column * tensor_.strides[rank - 1];
    }

    Dims shape_;
    std::vector<std::byte> memory_;
    Tensor tensor_;
};

/// Same bits: -0 is not 0, and NaN is NaN.
inline bool same_number(double a, double b) {
    return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0;
}

/// The scale, with the tensor's, that element (row, column) was given, as quantize.h says where it is.
inline double scale_of(const Operand& operand, std::int64_t group, std::int64_t row, std::int64_t column) {
    const Tensor& scales = operand.scales;
    if (!scales.given()) return 1;
    const int rows = row_block(operand.granularity);
    const int columns = k_block(operand.granularity);
    const std::int64_t places[] = {group, rows > 0 ? row / rows : 0, columns > 0 ? column / columns : 0};
    std::int64_t index = 0;
    int dim = scales.shape.rank() - 1;
    if (columns > 0) index += places[2] * scales.strides[dim--];
    if (rows > 0) index += places[1] * scales.strides[dim--];
    if (dim == 0 && scales.shape[0] > 1) index += group * scales.strides[0];
    const Tensor& over = operand.tensor_scale;
    const std::int64_t over_index = over.given() && over.shape[0] > 1 ? group * over.strides[0] : 0;
    return load(scales.data, scales.format, index) * (over.given() ? load(over.data, over.format, over_index) : 1);
}

inline double value_of(const Tensor& values, std::int64_t group, std::int64_t row, std::int64_t column) {
    const int rank = values.shape.rank();
    return load(values.data, values.format,
                (rank == 3 ? group * values.strides[0] : 0) + row * values.strides[rank - 2] +
                    column * values.strides[rank - 1]);
}

}  // namespace tilewright::formats
