#include "cpu/exact/output.h"

#include "formats/convert.h"
#include "formats/element.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace tilewright::cpu {
namespace {

/// As sums are multiplied by it, of NVFP4 that was decoded to bf16 too.
float tensor_scale(const OperandGeometry& operand, std::int64_t group) {
    if (operand.tensor_scale == nullptr) return 1;
    const double scale = formats::load(operand.tensor_scale, Format::f32, group * operand.tensor_scale_stride);
    return static_cast<float>(scale) * formats::nvfp4_tensor_factor();
}

template <class T>
void put(void* data, std::int64_t index, T code) {
    std::memcpy(static_cast<std::byte*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &code, sizeof(T));
}

void store(void* data, Format format, std::int64_t index, float value) {
    using formats::Overflow;
    switch (format) {
        case Format::bf16:
            return put(
                data, index,
                static_cast<std::uint16_t>(formats::encode_f32<formats::bf16_fields, Overflow::propagate>(value)));
        case Format::f16:
            return put(
                data, index,
                static_cast<std::uint16_t>(formats::encode_f32<formats::f16_fields, Overflow::propagate>(value)));
        default: return put(data, index, std::isnan(value) ? 0x7FFF'FFFFU : std::bit_cast<std::uint32_t>(value));
    }
}

/// Null where no side is folded.
const FoldedRow* folded_row(const TileSums& tile, std::int64_t i, std::int64_t j) {
    return tile.folded.empty() ? nullptr : &tile.folded[static_cast<std::size_t>(tile.folded_is_a ? i : j)];
}

}  // namespace

void write_outputs(const TileSums& tile) {
    const Geometry& g = tile.geometry;
    const GroupGemm& gemm = tile.place.gemm;
    const float alpha = g.alpha * (tensor_scale(g.a, gemm.group) * tensor_scale(g.b, gemm.group));
    for (std::int64_t i = 0; i < tile.place.rows; ++i) {
        const std::int64_t row = gemm.row_begin + tile.place.row + i;
        for (std::int64_t j = 0; j < tile.place.columns; ++j) {
            const std::int64_t column = tile.place.column + j;
            const FoldedRow* const folded = folded_row(tile, i, j);
            if (folded != nullptr && folded->wide != tile.wide) continue;
            float sum = tile.sums[(j / tile.panel * tile.place.rows + i) * tile.panel + j % tile.panel];
            if (tile.a_scales != nullptr) sum *= tile.a_scales[i] * tile.b_scales[j];
            if (folded != nullptr && tile.folded_end) sum *= folded->end_factor;
            float value = alpha * sum;
            if (g.c.data != nullptr) {
                const auto c =
                    static_cast<float>(formats::load(g.c.data, g.addend(), output_index(g.c, gemm.group, row, column)));
                value = gemm.k_count == 0 ? c : std::fma(alpha, sum, c);
            } else if (gemm.k_count == 0) {
                value = 0;
            }
            store(g.d.data, g.output, output_index(g.d, gemm.group, row, column), value);
        }
    }
}

}  // namespace tilewright::cpu
