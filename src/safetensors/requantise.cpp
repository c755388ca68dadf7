// A matrix in another recipe: dequantised and quantised a range of rows at a time, or, where all rows share a scale,
// whole. Codes and scales that another recipe has too are kept.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "safetensors/comparison.h"
#include "safetensors/convert.h"
#include "safetensors/fnuz.h"

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

bool has_scales_of_many_rows(const OperandRecipe& recipe) {
    return row_block(recipe.granularity) == 0 || recipe.granularity == Granularity::block_1x16;
}

/// Whether numbers of `from` are numbers of `to` with the same scales.
bool widens(const Operand& from, const OperandRecipe& to) {
    if (!from.scales.given()) return false;
    const Format code = from.values.format;
    const bool values = code == to.values || (code == Format::e2m1 && is_fp8(to.values));
    const bool scales =
        from.scales.format == to.scales || (from.scales.format == Format::ue8m0 && to.scales == Format::f32);
    return from.granularity == to.granularity && values && scales;
}

void recode(const Tensor& from, const Tensor& to) {
    if (!from.given()) return;
    if (from.format == to.format) {
        std::memcpy(to.data, from.data, static_cast<std::size_t>(row_major_bytes(from.format, from.shape)));
        return;
    }
    std::size_t count = 1;
    for (const std::int64_t size : from.shape) count *= static_cast<std::size_t>(size);
    std::vector<float> numbers(count);
    decode(from, row_major(numbers.data(), Format::f32, from.shape));
    encode(row_major(std::as_const(numbers).data(), Format::f32, from.shape), to);
}

/// Rows of a stored matrix in another recipe.
void requantise_rows(const Operand& before, const QuantizeOptions& options, const Operand& after,
                     bool others_are_rounded, Comparison& comparison) {
    if (widens(before, options.recipe)) {
        recode(before.values, after.values);
        recode(before.scales, after.scales);
        recode(before.tensor_scale, after.tensor_scale);
        if (others_are_rounded) comparison.add(before, numbers_of(before), before);
        return;
    }
    const std::vector<float> numbers = numbers_of(before);
    quantize(row_major(numbers.data(), Format::f32, before.values.shape), options, after);
    comparison.add(before, numbers, after);
}

/// NaN in weights is found late, in what a model says, so that none is written for a number.
void refuse_losses(const StoredMatrix& matrix, const OperandRecipe& recipe, const Comparison& comparison) {
    if (comparison.lost == 0 && comparison.changed == 0) return;
    const std::string others =
        comparison.changed == 0 ? "" : fmt::format(", {} that are NaN or infinite others", comparison.changed);
    throw std::runtime_error(
        fmt::format("{}: {} finite numbers of {} would become NaN or infinite{} as {} is made {}; --exclude keeps the "
                    "matrix unchanged",
                    matrix.name, comparison.lost, comparison.count, others, matrix.format(), name(recipe)));
}

}  // namespace

Requantised requantised(const Checkpoint& checkpoint, const StoredMatrix& matrix, const OperandRecipe& recipe,
                        bool round_up) {
    Requantised result;
    if (recipe == matrix.recipe && matrix.packed) {
        result.operand = load_matrix(checkpoint, matrix);
        return result;
    }
    result.operand = OwnedOperand(matrix.shape(), recipe);
    OwnedOperand whole;
    if (matrix.packed) whole = load_matrix(checkpoint, matrix);
    // Some rows of an fnuz format may be kept, and others not; the error is that of all.
    const bool fnuz = fnuz_sibling(matrix.values->stored.dtype).has_value();
    Comparison comparison;
    const std::int64_t step = has_scales_of_many_rows(recipe) ? matrix.n : rows_at_once;
    for (std::int64_t group = 0; group < matrix.groups; ++group) {
        for (std::int64_t row = 0; row < matrix.n; row += step) {
            const std::int64_t rows = std::min(step, matrix.n - row);
            const auto convert_rows = [&](const Operand& before) {
                requantise_rows(before, {.recipe = recipe, .round_up = round_up},
                                rows_of(result.operand, group, row, rows), fnuz, comparison);
            };
            if (matrix.packed) {
                convert_rows(rows_of(whole, group, row, rows));
            } else {
                convert_rows(LoadedRows(checkpoint, matrix, group, row, rows).operand());
            }
        }
    }
    refuse_losses(matrix, recipe, comparison);
    result.error = comparison.error();
    return result;
}

}  // namespace tilewright::safetensors
