// Operands that own their memory, and the shapes of scales.
#include "base/math.h"
#include "formats/quantize_check.h"

#include <tilewright/error.h>
#include <tilewright/quantize.h>

#include <cstdint>

namespace tilewright {
namespace {

constexpr std::int64_t alignment = 128;

std::int64_t aligned_bytes(const Tensor& tensor) {
    return round_up(row_major_bytes(tensor.format, tensor.shape), alignment);
}

}  // namespace

Dims scale_shape(Granularity granularity, const Dims& shape) {
    const std::int64_t rows = shape[shape.rank() - 2];
    const std::int64_t k = shape[shape.rank() - 1];
    const int row_count = row_block(granularity);
    const int k_count = k_block(granularity);
    Dims scales;
    if (granularity == Granularity::none) return scales;
    if (shape.rank() == 3) scales.push_back(shape[0]);
    if (row_count > 0) scales.push_back(ceil_div<std::int64_t>(rows, row_count));
    if (k_count > 0) scales.push_back(ceil_div<std::int64_t>(k, k_count));
    if (scales.rank() == 0) scales.push_back(1);
    return scales;
}

OwnedOperand::OwnedOperand(const Dims& shape, const OperandRecipe& recipe) {
    std::vector<Finding> findings = formats::check_owned(shape, recipe);
    if (!findings.empty()) throw Error(std::move(findings));
    operand_.granularity = recipe.granularity;
    operand_.values = row_major(static_cast<void*>(nullptr), recipe.values, shape);
    if (recipe.granularity != Granularity::none) {
        operand_.scales = row_major(static_cast<void*>(nullptr), recipe.scales, scale_shape(recipe.granularity, shape));
    }
    if (recipe.granularity == Granularity::block_1x16) {
        operand_.tensor_scale =
            row_major(static_cast<void*>(nullptr), Format::f32, scale_shape(Granularity::tensor, shape));
    }

    std::int64_t bytes = alignment;  // space to align the beginning
    for (const Tensor* tensor : {&operand_.values, &operand_.scales, &operand_.tensor_scale}) {
        bytes += aligned_bytes(*tensor);
    }
    memory_ = std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    std::byte* next = memory_.get() + (alignment - static_cast<std::int64_t>(address % alignment)) % alignment;
    for (Tensor* tensor : {&operand_.values, &operand_.scales, &operand_.tensor_scale}) {
        if (!tensor->given()) continue;
        tensor->data = next;
        next += aligned_bytes(*tensor);
    }
}

OwnedOperand quantize(const Tensor& source, const QuantizeOptions& options, const ConversionOptions& how) {
    std::vector<Finding> findings = formats::check_quantize(source, options);
    if (!findings.empty()) throw Error(std::move(findings));
    OwnedOperand out(source.shape, options.recipe);
    quantize(source, options, out, how);
    return out;
}

}  // namespace tilewright
