// A matrix in another recipe: dequantised and quantised a range of rows at a time, or, where all rows share a scale,
// whole.
#include <algorithm>
#include <cmath>
#include <utility>

#include "safetensors/convert.h"

namespace tilewright::safetensors {
namespace {

constexpr std::int64_t rows_at_once = 1024;  // of 128x128, which no range divides

/// Rows of an operand [rows, k] or of one group of it.
Operand rows_of(const Operand& operand, std::int64_t group, std::int64_t row, std::int64_t rows) {
    const auto part = [&](const Tensor& tensor, std::int64_t first, std::int64_t count) {
        const int rank = tensor.shape.rank();
        const bool grouped = operand.values.shape.rank() == 3;
        Dims shape;
        for (int i = grouped ? 1 : 0; i < rank; ++i) shape.push_back(tensor.shape[i]);
        const std::int64_t group_bytes = shape.rank() == 0 ? 4 : row_major_bytes(tensor.format, shape);
        std::int64_t offset = group * group_bytes;
        if (shape.rank() == 0) shape = {1};
        if (count > 0) {
            const std::int64_t all = shape[0];
            offset += first * (all == 0 ? 0 : group_bytes / all);
            shape[0] = count;
        }
        return row_major(static_cast<const std::byte*>(tensor.data) + offset, tensor.format, shape);
    };
    Operand view{.values = part(operand.values, row, rows), .granularity = operand.granularity};
    if (!operand.scales.given()) return view;
    const int block = row_block(operand.granularity);
    const std::int64_t scales = block == 0 ? 0 : (rows + block - 1) / block;
    view.scales = part(operand.scales, block == 0 ? 0 : row / block, scales);
    if (operand.tensor_scale.given()) view.tensor_scale = part(operand.tensor_scale, 0, 0);
    return view;
}

struct ErrorSum {
    double errors = 0;
    double squares = 0;

    void add(const std::vector<float>& before, const std::vector<float>& after) {
        for (std::size_t i = 0; i < before.size(); ++i) {
            const double difference = double{after[i]} - before[i];
            if (!std::isfinite(difference)) continue;  // NaN before, NaN after
            errors += difference * difference;
            squares += double{before[i]} * before[i];
        }
    }
    double relative() const { return squares == 0 ? 0 : std::sqrt(errors / squares); }
};

std::vector<float> numbers_of(const Operand& operand) {
    const Dims& shape = operand.values.shape;
    std::vector<float> numbers(static_cast<std::size_t>(shape[0] * shape[1]));
    dequantize(operand, row_major(numbers.data(), Format::f32, shape));
    return numbers;
}

bool has_scales_of_many_rows(const OperandRecipe& recipe) {
    return row_block(recipe.granularity) == 0 || recipe.granularity == Granularity::block_1x16;
}

}  // namespace

Requantised requantised(const Checkpoint& checkpoint, const StoredMatrix& matrix, const OperandRecipe& recipe,
                        bool round_up) {
    Requantised result;
    if (recipe == matrix.recipe) {
        result.operand = load_matrix(checkpoint, matrix);
        return result;
    }
    result.operand = OwnedOperand(matrix.shape(), recipe);
    OwnedOperand whole;
    if (matrix.packed) whole = load_matrix(checkpoint, matrix);
    ErrorSum sum;
    const std::int64_t step = has_scales_of_many_rows(recipe) ? matrix.n : rows_at_once;
    for (std::int64_t group = 0; group < matrix.groups; ++group) {
        for (std::int64_t row = 0; row < matrix.n; row += step) {
            const std::int64_t rows = std::min(step, matrix.n - row);
            std::vector<float> before;
            if (matrix.packed) {
                before = numbers_of(rows_of(whole, group, row, rows));
            } else {
                before = numbers_of(LoadedRows(checkpoint, matrix, group, row, rows).operand());
            }
            const Operand part = rows_of(result.operand, group, row, rows);
            const Tensor source = row_major(std::as_const(before).data(), Format::f32, {rows, matrix.k});
            quantize(source, {.recipe = recipe, .round_up = round_up}, part);
            sum.add(before, numbers_of(part));
        }
    }
    result.error = sum.relative();
    return result;
}

}  // namespace tilewright::safetensors
