// Matrices of more than 2^31 elements whose rows and columns repeat, so that a small matrix of the host says what each
// row of them must be.
#pragma once

#include <tilewright/tensor.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "measure/device.h"

namespace tilewright::test {

/// Where a row of the large matrix begins in the small one.
struct Place {
    std::int64_t row = 0;
    std::int64_t column = 0;
};

class Periodic {
public:
    /// `block` has no gaps; of both shapes all dimensions but the last are rows.
    Periodic(const Tensor& block, const Dims& shape, std::function<Place(std::int64_t)> place)
        : block_(block),
          shape_(shape),
          place_(std::move(place)),
          rows_(rows_of(shape)),
          row_bytes_(last(shape) * bits(block.format) / 8),
          block_row_bytes_(last(block.shape) * bits(block.format) / 8) {}

    measure::Buffer on_gpu() const {
        measure::Buffer buffer(static_cast<std::size_t>(rows_ * row_bytes_));
        for_each_chunk([&](const std::vector<std::byte>& bytes, std::int64_t first_row) {
            buffer.upload(bytes.data(), bytes.size(), static_cast<std::size_t>(first_row * row_bytes_));
            return true;
        });
        return buffer;
    }

    /// The first row of the GPU's matrix that is another; empty if none is.
    std::string difference(const measure::Buffer& given) const {
        std::string text;
        std::vector<std::byte> ours;
        for_each_chunk([&](const std::vector<std::byte>& bytes, std::int64_t first_row) {
            ours.resize(bytes.size());
            given.download(ours.data(), ours.size(), static_cast<std::size_t>(first_row * row_bytes_));
            if (std::memcmp(ours.data(), bytes.data(), bytes.size()) == 0) return true;
            const auto at = std::mismatch(ours.begin(), ours.end(), bytes.begin()).first - ours.begin();
            text = "row " + std::to_string(first_row + at / row_bytes_) + ", byte " + std::to_string(at % row_bytes_);
            return false;
        });
        return text;
    }

    Tensor tensor(const measure::Buffer& memory) const {
        Tensor view = row_major(memory.data(), block_.format, shape_);
        view.device = {.kind = DeviceId::Kind::cuda, .index = 0};
        return view;
    }

private:
    static std::int64_t last(const Dims& shape) { return shape[shape.rank() - 1]; }
    static std::int64_t rows_of(const Dims& shape) {
        std::int64_t rows = 1;
        for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i];
        return rows;
    }

    void write_row(std::int64_t row, std::byte* to) const {
        const Place place = place_(row);
        const auto* const from = static_cast<const std::byte*>(block_.data) + place.row * block_row_bytes_;
        std::int64_t at = place.column * bits(block_.format) / 8;
        for (std::int64_t done = 0; done < row_bytes_;) {
            const std::int64_t count = std::min(block_row_bytes_ - at, row_bytes_ - done);
            std::memcpy(to + done, from + at, static_cast<std::size_t>(count));
            done += count;
            at = 0;
        }
    }

    /// Rows of 64 MiB at a time, until `take` returns false.
    template <typename Take>
    void for_each_chunk(const Take& take) const {
        const std::int64_t most = std::max<std::int64_t>(1, (std::int64_t{64} << 20) / row_bytes_);
        std::vector<std::byte> bytes;
        for (std::int64_t begin = 0; begin < rows_; begin += most) {
            const std::int64_t count = std::min(most, rows_ - begin);
            bytes.resize(static_cast<std::size_t>(count * row_bytes_));
#pragma omp parallel for
            for (std::int64_t i = 0; i < count; ++i) write_row(begin + i, bytes.data() + i * row_bytes_);
            if (!take(bytes, begin)) return;
        }
    }

    Tensor block_;
    Dims shape_;
    std::function<Place(std::int64_t)> place_;
    std::int64_t rows_;
    std::int64_t row_bytes_;
    std::int64_t block_row_bytes_;
};

}  // namespace tilewright::test
