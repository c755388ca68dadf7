// Ordinary FP4 weights, read block by block: the input of packing.
#pragma once

#include "formats/packed_layout.h"

#include <tilewright/problem.h>

namespace tilewright::formats {

class PackedSource {
public:
    /// Throws Error with every finding.
    explicit PackedSource(const Operand& weights);

    OperandRecipe recipe() const;
    bool grouped() const { return weights_.values.shape.rank() == 3; }
    PackedSections sections() const;

    /// The code of the scale of block `column` of a row.
    int scale(std::int64_t group, std::int64_t row, std::int64_t column) const;
    /// Whether the block has a code other than 0 and -0.
    bool block_has_nonzero(std::int64_t group, std::int64_t row, std::int64_t column) const;
    /// Its codes, one to a byte; how many there are, which is less than a block at the end of a row.
    std::int64_t codes(std::int64_t group, std::int64_t row, std::int64_t column, std::uint8_t* out) const;
    float tensor_scale(std::int64_t index) const;

private:
    Operand weights_;
    std::int64_t k_ = 0;
    int block_ = 32;
    Dims value_strides_;  // group, row
    Dims scale_strides_;  // group, row, column
};

}  // namespace tilewright::formats
