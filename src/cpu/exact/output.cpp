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

float tensor_scale(const OperandGeometry& operand, std::int64_t group) {
    if (operand.tensor_scale == nullptr) return 1;
    return static_cast<float>(formats::load(operand.tensor_scale, Format::f32, group * operand.tensor_scale_stride));
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

/// Null if no side is folded.
const FoldedRow* folded_row(const TileSums& tile, std::int64_t i, std::int64_t j) {
    return tile.folded.empty() ? nullptr : &tile.folded[static_cast<std::size_t>(tile.folded_is_a ? i : j)];
}

/// The factors of a GEMM's sums, except the scales of its rows and columns.
class End {
public:
    End(const TileSums& tile, const Geometry& g, std::int64_t group) : tile_(tile), alpha_(g.alpha) {
        // NVFP4 that was decoded to bf16 also has its tensor scale.
        const auto waits = [](const OperandGeometry& nvfp4, const OperandGeometry& other) {
            return nvfp4.tensor_scale != nullptr && scaled_outside(other.recipe.granularity);
        };
        const float of_a = tensor_scale(g.a, group), of_b = tensor_scale(g.b, group);
        const bool at_end = waits(g.a, g.b) || waits(g.b, g.a);
        float below = 1;  // the factor that NVFP4's values lack
        for (const OperandGeometry* side : {&g.a, &g.b}) {
            if (side->tensor_scale != nullptr) below *= formats::nvfp4_tensor_factor();
        }
        if (at_end) {
            of_a_ = of_a;
            of_b_ = of_b;
            of_sum_ = below;
        } else if (formats::is_large_tensor_scale(of_a * of_b)) {
            of_sum_ = below;
            alpha_ *= of_a * of_b;
        } else {
            alpha_ *= of_a * of_b * below;
        }
        apart_ = tile.order.folded != Folded::none || tile.order.defers || at_end;
    }

    float alpha() const { return alpha_; }

    float scaled(float sum, std::int64_t i, std::int64_t j, const FoldedRow* folded) const {
        const float of_a = tile_.a_scales[i] * of_a_, of_b = tile_.b_scales[j] * of_b_;
        if (!apart_) return sum * of_sum_ * (of_a * of_b);
        if (folded == nullptr) return formats::multiply_by_both(sum * of_sum_, of_a, of_b);
        const float top = formats::power_of_two(folded->wide ? 0 : fold_top(tile_.order.step));
        const float other = tile_.folded_is_a ? of_b : of_a;
        return formats::multiply_by_both(sum / top * of_sum_, other, folded->end_factor * top);
    }

private:
    const TileSums& tile_;
    float alpha_;
    float of_a_ = 1;
    float of_b_ = 1;
    float of_sum_ = 1;
    bool apart_ = false;  // the scales of the two sides multiply a sum one after the other
};

}  // namespace

void write_outputs(const TileSums& tile) {
    const Geometry& g = tile.geometry;
    const GroupGemm& gemm = tile.place.gemm;
    const End end(tile, g, gemm.group);
    for (std::int64_t i = 0; i < tile.place.rows; ++i) {
        const std::int64_t row = gemm.row_begin + tile.place.row + i;
        for (std::int64_t j = 0; j < tile.place.columns; ++j) {
            const std::int64_t column = tile.place.column + j;
            const FoldedRow* const folded = folded_row(tile, i, j);
            if (folded != nullptr && folded->wide != tile.wide) continue;
            float sum = tile.sums[(j / tile.panel * tile.place.rows + i) * tile.panel + j % tile.panel];
            sum = end.scaled(sum, i, j, folded);
            float value = end.alpha() * sum;
            if (g.c.data != nullptr) {
                const auto c =
                    static_cast<float>(formats::load(g.c.data, g.addend(), output_index(g.c, gemm.group, row, column)));
                value = gemm.k_count == 0 ? c : std::fma(end.alpha(), sum, c);
            } else if (gemm.k_count == 0) {
                value = 0;
            }
            store(g.d.data, g.output, output_index(g.d, gemm.group, row, column), value);
        }
    }
}

}  // namespace tilewright::cpu
