// FP4 weights for the tests of packing: codes and scales at random, and the ones that are hard.
#pragma once

#include <tilewright/quantize.h>

#include <cstring>
#include <random>
#include <vector>

namespace tilewright::formats {

inline constexpr OperandRecipe mxfp4{Format::e2m1, Granularity::block_1x32, Format::ue8m0};
inline constexpr OperandRecipe nvfp4{Format::e2m1, Granularity::block_1x16, Format::ue4m3};

inline std::uint8_t* bytes_of(const Tensor& tensor) { return static_cast<std::uint8_t*>(tensor.data); }

inline std::int64_t byte_count(const Tensor& tensor) { return row_major_bytes(tensor.format, tensor.shape); }

/// Codes at random, scales from `least` to `most`.
inline OwnedOperand random_weights(const OperandRecipe& recipe, const Dims& shape, int least, int most,
                                   unsigned seed = 1) {
    OwnedOperand owned(shape, recipe);
    std::mt19937 random(seed);
    const Operand& operand = owned.operand();
    for (std::int64_t i = 0; i < byte_count(operand.values); ++i) {
        bytes_of(operand.values)[i] = static_cast<std::uint8_t>(random());
    }
    for (std::int64_t i = 0; i < byte_count(operand.scales); ++i) {
        bytes_of(operand.scales)[i] =
            static_cast<std::uint8_t>(least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1)));
    }
    for (std::int64_t i = 0; operand.tensor_scale.given() && i < operand.tensor_scale.shape[0]; ++i) {
        static_cast<float*>(operand.tensor_scale.data)[i] = 0.5F + static_cast<float>(i);
    }
    return owned;
}

/// Sets all codes of one block of 32 or 16.
inline void fill_block(const Operand& operand, std::int64_t row, std::int64_t column, std::uint8_t code) {
    const std::int64_t k = operand.values.shape[operand.values.shape.rank() - 1];
    const std::int64_t block = k_block(operand.granularity);
    for (std::int64_t i = column * block; i < std::min(k, (column + 1) * block); i += 2) {
        bytes_of(operand.values)[(row * k + i) / 2] = static_cast<std::uint8_t>(code | code << 4);
    }
}

inline std::uint8_t& scale_of_block(const Operand& operand, std::int64_t row, std::int64_t column) {
    const std::int64_t columns = operand.scales.shape[operand.scales.shape.rank() - 1];
    return bytes_of(operand.scales)[row * columns + column];
}

inline std::uint8_t code_of(const Operand& operand, std::int64_t row, std::int64_t k) {
    const std::int64_t index = row * operand.values.shape[operand.values.shape.rank() - 1] + k;
    return bytes_of(operand.values)[index / 2] >> (index % 2 * 4) & 15;
}

inline bool same_bytes(const Tensor& x, const Tensor& y) {
    return x.shape == y.shape &&
           (byte_count(x) == 0 || std::memcmp(x.data, y.data, static_cast<std::size_t>(byte_count(x))) == 0);
}

inline bool same_operand(const Operand& x, const Operand& y) {
    return same_bytes(x.values, y.values) && same_bytes(x.scales, y.scales) &&
           (!x.tensor_scale.given() || same_bytes(x.tensor_scale, y.tensor_scale));
}

}  // namespace tilewright::formats
