#include "cpu/reference.h"

#include "base/threads.h"
#include "formats/element.h"
#include "problem/canonical_order.h"

namespace tilewright::cpu {
namespace {

/// a(m, k) or b(n, k), and the scale that multiplies the product of the two.
struct Factor {
    double value;
    double scale;
};

/// `row` is the operand's row; `k` counts from the GEMM's `k_begin`.
Factor factor(const OperandGeometry& operand, const Origin& origin, std::int64_t group, std::int64_t row,
              std::int64_t k) {
    const double value = formats::load(operand.values, operand.recipe.values, value_index(operand, origin, row, k));
    if (operand.scales == nullptr) return {value, 1};
    const std::int64_t block = operand.k_block() == 0 ? 0 : origin.block + k / operand.k_block();
    const double scale = formats::load(operand.scales, operand.recipe.scales, scale_index(operand, group, row, block));
    return scaled_outside(operand.recipe.granularity) ? Factor{value, scale} : Factor{value * scale, 1};
}

double tensor_scale(const OperandGeometry& operand, std::int64_t group) {
    if (operand.tensor_scale == nullptr) return 1;
    return formats::load(operand.tensor_scale, Format::f32, group * operand.tensor_scale_stride);
}

}  // namespace

double reference_element(const Geometry& g, const GroupGemm& gemm, std::int64_t row, std::int64_t column) {
    const std::int64_t a_row = gemm.row_begin + row;
    double c = 0;
    if (g.c.data != nullptr) {
        c = formats::load(g.c.data, g.addend(), output_index(g.c, gemm.group, a_row, column));
    }
    if (gemm.k_count == 0) return c;  // even if scales are infinite

    const bool apart = scales_apart({g.a.recipe, g.b.recipe});
    double sum = 0;
    for (std::int64_t k = 0; k < gemm.k_count; ++k) {
        const Factor a = factor(g.a, gemm.a, gemm.group, a_row, k);
        const Factor b = factor(g.b, gemm.b, gemm.group, column, k);
        sum += a.value * b.value * (apart ? a.scale * b.scale : scale_product(a.scale, b.scale));
    }
    return c + output_factor(g.alpha, tensor_scale(g.a, gemm.group), tensor_scale(g.b, gemm.group)) * sum;
}

void run_reference(const Geometry& g, const std::function<bool()>& cancelled) {
    Cancellation cancellation(cancelled);
    for (const GroupGemm& gemm : group_gemms(g)) {
        for (std::int64_t row = 0; row < gemm.rows; ++row) {
            for (std::int64_t column = 0; column < g.n; ++column) {
                if (cancellation.requested()) return cancellation.check();
                const double value = reference_element(g, gemm, row, column);
                formats::store(g.d.data, g.output, output_index(g.d, gemm.group, gemm.row_begin + row, column), value);
            }
        }
    }
}

}  // namespace tilewright::cpu
