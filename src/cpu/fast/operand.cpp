#include "cpu/fast/operand.h"

#include "base/math.h"
#include "cpu/fast/micro_kernels.h"

#include "formats/element.h"

#include <cmath>
#include <cstring>

namespace tilewright::cpu {
namespace {

float scale_at(const OperandGeometry& operand, std::int64_t index) {
    if (operand.recipe.scales == Format::f32) {
        float scale = 0;
        std::memcpy(&scale, static_cast<const float*>(operand.scales) + index, sizeof(scale));
        return scale;
    }
    return code_values(operand.recipe.scales)[static_cast<const std::uint8_t*>(operand.scales)[index]];
}

/// The scale of a row, if it has only one; 1 if there are none.
float row_scale(const OperandSlice& slice, std::int64_t row) {
    const OperandGeometry& operand = *slice.operand;
    return operand.scales == nullptr ? 1 : scale_at(operand, scale_index(operand, slice.group, row, 0));
}

std::int64_t first_scale_column(const OperandBlock& block) {
    return block.slice.origin.block + block.k / block.slice.operand->k_block();
}

bool is_moderate(float scale, float largest) {
    const float magnitude = std::fabs(scale);
    const bool within = magnitude >= 1 / largest && magnitude <= largest;
    return within || magnitude == 0 || !std::isfinite(magnitude);
}

bool is_zero(const OperandBlock& block, std::int64_t row, int k_begin, int k_end) {
    const OperandGeometry& operand = *block.slice.operand;
    for (std::int64_t k = block.k + k_begin; k < block.k + k_end; ++k) {
        const std::int64_t index = value_index(operand, block.slice.origin, row, k);
        if (formats::load(operand.values, operand.recipe.values, index) != 0) return false;
    }
    return true;
}

/// Folds scales that vary along k, of one format; `at(index)` reads a scale.
template <class At>
bool fold_blocks(const OperandBlock& block, float gain, float* out, int stride, At at) {
    const OperandGeometry& operand = *block.slice.operand;
    const int columns = scale_columns(block);
    const int k_block = operand.k_block();
    const bool after = has_block_scales(block.slice);
    const float largest = after ? largest_block_scale : largest_folded_scale;
    bool moderate = true;
    for (std::int64_t r = 0; r < block.rows.count; ++r) {
        const std::int64_t row = block.rows[r];
        std::int64_t index = scale_index(operand, block.slice.group, row, first_scale_column(block));
        for (int c = 0; c < columns; ++c, index += operand.scale_strides.k) {
            const float scale = at(index);
            out[r + c * stride] = after && std::isfinite(scale) ? gain : scale * gain;
            if (is_moderate(scale, largest)) continue;
            const int begin = c * k_block;
            const int end = begin + k_block < block.k_count ? begin + k_block : block.k_count;
            const bool may_overflow = std::fabs(scale) > largest;
            moderate = !may_overflow && is_zero(block, row, begin, end) && moderate;
        }
    }
    return moderate;
}

}  // namespace

bool varies_along_k(const OperandSlice& slice) { return slice.operand->k_block() != 0; }

int scale_columns(const OperandBlock& block) {
    const int k_block = block.slice.operand->k_block();
    return k_block == 0 ? 1 : ceil_div(block.k_count, k_block);
}

bool has_block_scales(const OperandSlice& slice) {
    return varies_along_k(slice) && slice.operand->recipe.scales == Format::f32;
}

void block_scales(const OperandBlock& block, float* out, int stride) {
    const OperandGeometry& operand = *block.slice.operand;
    const bool present = has_block_scales(block.slice);
    const int columns = ceil_div(block.k_count, scale_k);
    for (std::int64_t r = 0; r < block.rows.count; ++r) {
        for (int c = 0; c < columns; ++c) {
            out[r + c * stride] = 1;
            if (!present) continue;
            const std::int64_t column = first_scale_column(block) + c;
            const float scale = scale_at(operand, scale_index(operand, block.slice.group, block.rows[r], column));
            if (std::isfinite(scale)) out[r + c * stride] = scale;
        }
    }
}

bool fold_scales(const OperandBlock& block, float gain, float* out, int stride) {
    const OperandGeometry& operand = *block.slice.operand;
    if (!varies_along_k(block.slice)) {
        for (std::int64_t r = 0; r < block.rows.count; ++r) {
            const float scale = row_scale(block.slice, block.rows[r]);
            out[r] = std::isfinite(scale) ? gain : gain * scale;
        }
        return true;
    }
    if (operand.recipe.scales == Format::f32) {
        return fold_blocks(block, gain, out, stride, [&](std::int64_t i) { return scale_at(operand, i); });
    }
    const float* values = code_values(operand.recipe.scales);
    const auto* codes = static_cast<const std::uint8_t*>(operand.scales);
    return fold_blocks(block, gain, out, stride, [=](std::int64_t i) { return values[codes[i]]; });
}

void exact_scales(const OperandBlock& block, double* out, int stride) {
    const int columns = scale_columns(block);
    const bool varies = varies_along_k(block.slice);
    for (std::int64_t r = 0; r < block.rows.count; ++r) {
        const std::int64_t row = block.rows[r];
        for (int c = 0; c < columns; ++c) {
            const OperandGeometry& operand = *block.slice.operand;
            out[r + c * stride] =
                varies ? scale_at(operand, scale_index(operand, block.slice.group, row, first_scale_column(block) + c))
                       : row_scale(block.slice, row);
        }
    }
}

double remaining_scale(const OperandSlice& slice, std::int64_t row) {
    if (varies_along_k(slice)) return 1;
    const float scale = row_scale(slice, row);
    return std::isfinite(scale) ? double{scale} : 1;
}

double tensor_scale(const OperandSlice& slice) {
    const OperandGeometry& operand = *slice.operand;
    if (operand.tensor_scale == nullptr) return 1;
    return formats::load(operand.tensor_scale, Format::f32, slice.group * operand.tensor_scale_stride);
}

DecodeJob decode_job(const OperandBlock& block) {
    const OperandGeometry& operand = *block.slice.operand;
    return {.values = operand.values,
            .format = operand.recipe.values,
            .rows = block.rows.list,
            .first_row = block.rows.first,
            .row_count = static_cast<int>(block.rows.count),
            .base = value_index(operand, block.slice.origin, 0, block.k),
            .row_stride = block.slice.origin.row_stride,
            .k_stride = operand.value_strides.k,
            .k_count = block.k_count,
            .k_block = operand.k_block()};
}

}  // namespace tilewright::cpu
