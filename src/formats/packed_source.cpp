#include "formats/packed_source.h"

#include "formats/quantize_check.h"
#include "formats/recipe_of.h"

#include <algorithm>
#include <cstring>

namespace tilewright::formats {
namespace {

void check(const Operand& weights) {
    std::vector<Finding> findings = check_packable(weights);
    if (!findings.empty()) throw Error(std::move(findings));
}

}  // namespace

PackedSource::PackedSource(const Operand& weights) : weights_(weights) {
    check(weights);
    const Tensor& values = weights.values;
    const int rank = values.shape.rank();
    k_ = values.shape[rank - 1];
    block_ = k_block(weights.granularity);
    value_strides_ = {rank == 3 ? values.strides[0] : 0, values.strides[rank - 2]};
    const Tensor& scales = weights.scales;
    scale_strides_ = {rank == 3 ? scales.strides[0] : 0, scales.strides[rank - 2], scales.strides[rank - 1]};
}

OperandRecipe PackedSource::recipe() const { return recipe_of(weights_); }

PackedSections PackedSource::sections() const {
    const Dims& shape = weights_.values.shape;
    return {.groups = grouped() ? shape[0] : 1,
            .n = shape[shape.rank() - 2],
            .k = k_,
            .scale_block = block_,
            .tensor_scales = weights_.tensor_scale.given() ? weights_.tensor_scale.shape[0] : 0};
}

int PackedSource::scale(std::int64_t group, std::int64_t row, std::int64_t column) const {
    const std::int64_t index = group * scale_strides_[0] + row * scale_strides_[1] + column * scale_strides_[2];
    return static_cast<const std::uint8_t*>(weights_.scales.data)[index];
}

bool PackedSource::block_has_nonzero(std::int64_t group, std::int64_t row, std::int64_t column) const {
    const std::int64_t first = group * value_strides_[0] + row * value_strides_[1] + column * block_;
    const std::int64_t count = std::min<std::int64_t>(block_, k_ - column * block_);
    const auto* bytes = static_cast<const std::uint8_t*>(weights_.values.data) + first / 2;
    return std::any_of(bytes, bytes + count / 2, [](std::uint8_t pair) { return (pair & 0x77) != 0; });
}

std::int64_t PackedSource::codes(std::int64_t group, std::int64_t row, std::int64_t column, std::uint8_t* out) const {
    const std::int64_t first = group * value_strides_[0] + row * value_strides_[1] + column * block_;
    const std::int64_t count = std::min<std::int64_t>(block_, k_ - column * block_);
    const auto* bytes = static_cast<const std::uint8_t*>(weights_.values.data) + first / 2;
    for (std::int64_t i = 0; i < count; i += 2) {
        out[i] = bytes[i / 2] & 15;
        out[i + 1] = bytes[i / 2] >> 4;
    }
    return count;
}

float PackedSource::tensor_scale(std::int64_t index) const {
    const Tensor& tensor = weights_.tensor_scale;
    const std::int64_t at = tensor.shape[0] > 1 ? index * tensor.strides[0] : 0;
    float scale = 0;
    std::memcpy(&scale, static_cast<const std::byte*>(tensor.data) + at * 4, sizeof scale);
    return scale;
}

}  // namespace tilewright::formats
