#include "cpu/fast/operand.h"

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

/// The one scale of a row; 1 where there are none.
float row_scale(const Side& side, std::int64_t row) {
    const OperandGeometry& operand = *side.operand;
    return operand.scales == nullptr ? 1 : scale_at(operand, scale_index(operand, side.group, row, 0));
}

std::int64_t first_scale_column(const Block& block) {
    return block.side.block_begin + block.k / block.side.operand->k_block();
}

bool is_moderate(float scale, float largest) {
    const float magnitude = std::fabs(scale);
    const bool within = magnitude >= 1 / largest && magnitude <= largest;
    return within || magnitude == 0 || !std::isfinite(magnitude);
}

bool is_zero(const Block& block, std::int64_t row, int k_begin, int k_end) {
    const OperandGeometry& operand = *block.side.operand;
    for (std::int64_t k = block.k + k_begin; k < block.k + k_end; ++k) {
        const std::int64_t index = value_index(operand, block.side.group, row, block.side.k_begin + k);
        if (formats::load(operand.values, operand.recipe.values, index) != 0) return false;
    }
    return true;
}

/// Scales that vary along k, by format: `at(index)` reads one.
template <class At>
bool fold_blocks(const Block& block, float gain, float* out, int stride, At at) {
    const OperandGeometry& operand = *block.side.operand;
    const int columns = scale_columns(block);
    const int k_block = operand.k_block();
    const bool after = has_block_scales(block.side);
    const float largest = after ? largest_block_scale : largest_folded_scale;
    bool moderate = true;
    for (std::int64_t r = 0; r < block.rows.count; ++r) {
        const std::int64_t row = block.rows[r];
        std::int64_t index = scale_index(operand, block.side.group, row, first_scale_column(block));
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

bool varies_along_k(const Side& side) { return side.operand->k_block() != 0; }

int scale_columns(const Block& block) {
    const int k_block = block.side.operand->k_block();
    return k_block == 0 ? 1 : (block.k_count + k_block - 1) / k_block;
}

bool has_block_scales(const Side& side) { return varies_along_k(side) && side.operand->recipe.scales == Format::f32; }

void block_scales(const Block& block, float* out, int stride) {
    const OperandGeometry& operand = *block.side.operand;
    const bool present = has_block_scales(block.side);
    const int columns = (block.k_count + scale_k - 1) / scale_k;
    for (std::int64_t r = 0; r < block.rows.count; ++r) {
        for (int c = 0; c < columns; ++c) {
            out[r + c * stride] = 1;
            if (!present) continue;
            const std::int64_t column = first_scale_column(block) + c;
            const float scale = scale_at(operand, scale_index(operand, block.side.group, block.rows[r], column));
            if (std::isfinite(scale)) out[r + c * stride] = scale;
        }
    }
}

bool fold_scales(const Block& block, float gain, float* out, int stride) {
    const OperandGeometry& operand = *block.side.operand;
    if (!varies_along_k(block.side)) {
        for (std::int64_t r = 0; r < block.rows.count; ++r) {
            const float scale = row_scale(block.side, block.rows[r]);
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

void exact_scales(const Block& block, double* out, int stride) {
    const int columns = scale_columns(block);
    const bool varies = varies_along_k(block.side);
    for (std::int64_t r = 0; r < block.rows.count; ++r) {
        const std::int64_t row = block.rows[r];
        for (int c = 0; c < columns; ++c) {
            const OperandGeometry& operand = *block.side.operand;
            out[r + c * stride] =
                varies ? scale_at(operand, scale_index(operand, block.side.group, row, first_scale_column(block) + c))
                       : row_scale(block.side, row);
        }
    }
}

double remaining_scale(const Side& side, std::int64_t row) {
    if (varies_along_k(side)) return 1;
    const float scale = row_scale(side, row);
    return std::isfinite(scale) ? double{scale} : 1;
}

double tensor_scale(const Side& side) {
    const OperandGeometry& operand = *side.operand;
    if (operand.tensor_scale == nullptr) return 1;
    return formats::load(operand.tensor_scale, Format::f32, side.group * operand.tensor_scale_stride);
}

DecodeJob decode_job(const Block& block) {
    const OperandGeometry& operand = *block.side.operand;
    return {.values = operand.values,
            .format = operand.recipe.values,
            .rows = block.rows.list,
            .first_row = block.rows.first,
            .row_count = static_cast<int>(block.rows.count),
            .base = value_index(operand, block.side.group, 0, block.side.k_begin + block.k),
            .row_stride = operand.value_strides.row,
            .k_stride = operand.value_strides.k,
            .k_count = block.k_count,
            .k_block = operand.k_block()};
}

}  // namespace tilewright::cpu
