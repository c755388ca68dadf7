#include "check/slab.h"

#include "formats/codec.h"
#include "formats/element.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tilewright::check {
namespace {

/// All codes of a format of up to eight bits.
struct Table {
    std::array<float, 256> numbers{};
    explicit Table(const formats::Fields& fields) {
        for (std::uint32_t code = 0; code < numbers.size(); ++code) numbers[code] = formats::decode(fields, code);
    }
};

float load_value(const OperandGeometry& operand, std::int64_t index) {
    static const Table e4m3(formats::e4m3_fields);
    static const Table e5m2(formats::e5m2_fields);
    switch (operand.recipe.values) {
        case Format::e4m3: return e4m3.numbers[static_cast<const std::uint8_t*>(operand.values)[index]];
        case Format::e5m2: return e5m2.numbers[static_cast<const std::uint8_t*>(operand.values)[index]];
        default: return static_cast<float>(formats::load(operand.values, operand.recipe.values, index));
    }
}

float load_scale(const SlabRange& range, std::int64_t row, std::int64_t k) {
    const OperandGeometry& operand = range.operand;
    if (operand.scales == nullptr) return 1;
    const std::int64_t block = operand.k_block() == 0 ? 0 : range.origin.block + (range.k + k) / operand.k_block();
    return static_cast<float>(formats::load(operand.scales, operand.recipe.scales,
                                            scale_index(operand, range.group, range.row + row, block)));
}

/// Stretches of k with one scale. Without scales, or with one for a row or tensor: the whole slab.
std::int64_t scale_stretch(const OperandGeometry& operand) {
    return operand.k_block() == 0 ? slab_k : std::min<std::int64_t>(operand.k_block(), slab_k);
}

void decode_row(const SlabRange& range, std::optional<StepKind> step, std::int64_t row, Slab& slab) {
    const OperandGeometry& operand = range.operand;
    const bool outside = scaled_outside(operand.recipe.granularity);
    const int smallest =
        step ? formats::fields(multiplied_format(operand.recipe.values, *step)).smallest_exponent() : 0;
    const std::int64_t stretch = scale_stretch(operand);
    for (std::int64_t begin = 0; begin < range.k_count; begin += stretch) {
        const std::int64_t end = std::min(range.k_count, begin + stretch);
        const float scale = load_scale(range, row, begin);
        for (std::int64_t k = begin; k < end; ++k) {
            const auto at = static_cast<std::size_t>(row * slab_k + k);
            float value = load_value(operand, value_index(operand, range.origin, range.row + row, range.k + k));
            slab.exact[at] = double{value} * scale;
            if (!step) continue;
            if (is_nvfp4(operand.recipe)) value *= scale * nvfp4_below;  // exact
            slab.values[at] = value;
            slab.exponents[at] = exponent_of(value, smallest);
            if (!std::isfinite(value)) slab.special[static_cast<std::size_t>(row)] = 1;
        }
        for (std::int64_t k = begin; outside && k < end; k += slab_scale_k) {
            slab.scales[static_cast<std::size_t>((row * slab_k + k) / slab_scale_k)] = scale;
        }
    }
}

}  // namespace

void decode(const SlabRange& range, std::optional<StepKind> step, Slab& slab) {
    const auto count = static_cast<std::size_t>(range.rows * slab_k);
    slab.exact.assign(count, 0);
    slab.scales.assign(count / static_cast<std::size_t>(slab_scale_k), 1);
    if (step) {
        slab.values.assign(count, 0);
        slab.exponents.assign(count, no_exponent);
        slab.special.assign(static_cast<std::size_t>(range.rows), 0);
    }
    for (std::int64_t row = 0; row < range.rows; ++row) decode_row(range, step, row, slab);
}

}  // namespace tilewright::check
