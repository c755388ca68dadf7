// Reading the rows of a stored matrix as an operand, whatever its publisher calls its tensors.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "safetensors/stored_matrix.h"

namespace tilewright::safetensors {
namespace {

constexpr std::int64_t scale_rows = 128;  // of 128x128, which no range of rows divides

std::int64_t blocks(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

/// Rows of the scales in front of row `row`, and in `rows` rows.
std::int64_t scale_rows_of(const OperandRecipe& recipe, std::int64_t rows) {
    const int block = row_block(recipe.granularity);
    return block == 0 ? 0 : blocks(rows, block);
}

std::int64_t scale_row_bytes(const StoredMatrix& matrix) {
    const int block = k_block(matrix.recipe.granularity);
    return (block == 0 ? 1 : blocks(matrix.k, block)) * bits(matrix.recipe.scales) / 8;
}

void read(const Checkpoint& checkpoint, const Checkpoint::Tensor& tensor, std::int64_t offset, std::int64_t bytes,
          std::vector<std::byte>& out) {
    out.resize(static_cast<std::size_t>(bytes));
    checkpoint.read(tensor, static_cast<std::uint64_t>(offset), out.data(), out.size());
}

float read_tensor_scale(const Checkpoint& checkpoint, const StoredMatrix& matrix, std::int64_t group) {
    float scale = 1;
    if (matrix.tensor_scale == nullptr) return scale;
    const std::uint64_t offset = matrix.tensor_scale->stored.bytes() > 4 ? static_cast<std::uint64_t>(group) * 4 : 0;
    checkpoint.read(*matrix.tensor_scale, offset, &scale, sizeof scale);
    return matrix.divides ? 1 / scale : scale;
}

}  // namespace

LoadedRows::LoadedRows(const Checkpoint& checkpoint, const StoredMatrix& given, std::int64_t group, std::int64_t row,
                       std::int64_t rows) {
    const bool stacked = !given.experts.empty();
    const StoredMatrix& matrix = stacked ? given.experts[static_cast<std::size_t>(group)] : given;
    if (stacked) group = 0;
    if (matrix.packed || row % scale_rows != 0) throw std::logic_error("LoadedRows: packed, or rows inside a block");
    const OperandRecipe& recipe = matrix.recipe;
    const std::int64_t row_bytes = matrix.k * bits(recipe.values) / 8;
    read(checkpoint, *matrix.values, (group * matrix.n + row) * row_bytes, rows * row_bytes, values_);
    operand_ = {.values = row_major(values_.data(), recipe.values, {rows, matrix.k}),
                .granularity = recipe.granularity};
    if (recipe.granularity == Granularity::none) return;
    const std::int64_t line = scale_row_bytes(matrix);
    const std::int64_t before = scale_rows_of(recipe, row);
    const bool per_tensor = row_block(recipe.granularity) == 0;
    const std::int64_t count = per_tensor ? 1 : scale_rows_of(recipe, rows);
    const std::int64_t in_group = per_tensor ? 1 : scale_rows_of(recipe, matrix.n);
    const bool shared = per_tensor && matrix.scales->stored.bytes() == static_cast<std::uint64_t>(line);
    read(checkpoint, *matrix.scales, ((shared ? 0 : group * in_group) + before) * line, count * line, scales_);
    operand_.scales = row_major(scales_.data(), recipe.scales, scale_shape(recipe.granularity, {rows, matrix.k}));
    if (recipe.granularity != Granularity::block_1x16) return;
    tensor_scale_ = read_tensor_scale(checkpoint, matrix, group);
    operand_.tensor_scale = row_major(&tensor_scale_, Format::f32, {1});
}

OwnedOperand load_matrix(const Checkpoint& checkpoint, const StoredMatrix& matrix) {
    if (matrix.packed && matrix.experts.empty()) {
        OwnedPackedWeights packed(static_cast<std::int64_t>(matrix.values->stored.bytes()));
        checkpoint.read(*matrix.values, 0, packed.packed.data, matrix.values->stored.bytes());
        return unpack_weights(packed_weights(packed.packed.data, packed.packed.bytes));
    }
    OwnedOperand all(matrix.shape(), matrix.recipe);
    const Operand& out = all.operand();
    for (std::int64_t group = 0; group < matrix.groups; ++group) {
        const auto copy = [&](const Tensor& from, const Tensor& to) {
            if (!from.given()) return;
            const std::int64_t bytes = row_major_bytes(from.format, from.shape);
            std::memcpy(static_cast<std::byte*>(to.data) + group * bytes, from.data, static_cast<std::size_t>(bytes));
        };
        const auto copy_all = [&](const Operand& from) {
            copy(from.values, out.values);
            copy(from.scales, out.scales);
            copy(from.tensor_scale, out.tensor_scale);
        };
        if (matrix.packed) {
            copy_all(load_matrix(checkpoint, matrix.experts[static_cast<std::size_t>(group)]));
        } else {
            copy_all(LoadedRows(checkpoint, matrix, group, 0, matrix.n).operand());
        }
    }
    return all;
}

}  // namespace tilewright::safetensors
