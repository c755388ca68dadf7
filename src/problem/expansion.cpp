#include "problem/expansion.h"

#include "base/math.h"
#include "problem/gpu_routes.h"
#include "problem/hopper_rules.h"
#include "problem/workspace.h"

namespace tilewright {
namespace {

/// With fewer products than these, one more launch costs more than is gained. Narrow weights or fewer elements of D
/// leave SMs idle, because the tile is 128x256.
constexpr std::int64_t least_expanded_columns = 2560;
constexpr double least_expanded_elements = 0x1p22;
constexpr double least_expanded_products = 0x1p35;
/// Packed weights are chosen to save memory, and all experts of a large layer would take several GB of workspace.
constexpr std::int64_t most_expanded_bytes = std::int64_t{1} << 30;

}  // namespace

std::int64_t known_rows(const Geometry& g) {
    switch (g.grouping.grouping) {
        case Grouping::dense:
        case Grouping::batched: return g.m;
        case Grouping::m_grouped_masked:
            return min(g.expected_m, g.m);  // m is the capacity, mostly much more than the rows
        default: break;
    }
    if (expects_fewer_rows(g)) return g.expected_m;
    return g.groups > 0 ? g.m / g.groups : 0;
}

std::int64_t ExpandedWeights::factors_at() const {
    return at + round_up<std::int64_t>(value_bytes(), workspace_alignment);
}

ExpandedWeights expansion_of(const Geometry& g) {
    const CanonicalOrder order = canonical_order({g.a.recipe, g.b.recipe}, g.accumulation).value_or(CanonicalOrder{});
    const Format values = multiplied_format(g.b.recipe.values, order.step);
    const std::int64_t row = aligned_row(g.k, values);
    return {.from = g.b.packed,
            .values = values,
            .has_factors = order.folded == Folded::b,
            .groups = matrices_of_b(g),
            .n = g.n,
            .k = g.k,
            .to = {.group = g.n * row, .row = row, .k = 1}};
}

OperandGeometry expanded_operand(const ExpandedWeights& expansion, const void* workspace) {
    OperandGeometry operand{
        .recipe = {.values = expansion.values, .granularity = Granularity::none, .scales = Format::f32},
        .values = in_workspace(workspace, expansion.at),
        .value_strides = expansion.to};
    if (expansion.has_factors) {
        operand.scales = in_workspace(workspace, expansion.factors_at());
        operand.scale_strides = {.group = expansion.n, .row = 1};
    } else {
        operand.tensor_scale = expansion.from.tensor_scales;
        operand.tensor_scale_stride = expansion.from.tensor_scale_stride;
        operand.has_tensor_scale = true;
    }
    return operand;
}

/// The row's factor multiplies sums at the end, after the scale of a row or tensor of A. This needs separate kernels
/// (CanonicalOrder::folded): row : row multiplies both scales first, and 1x32 : row applies them with each chain.
bool expands_weights(const Geometry& g) {
    const PackedGeometry& packed = g.b.packed;
    if (!packed.given || packed.windows != 0 || packed.wide_row >= 0 || is_k_grouped(g.grouping.grouping)) return false;
    const std::optional<GpuRoute> route = gpu_route({g.a.recipe, g.b.recipe});
    if (!route || route->expanded_rows == 0) return false;
    const std::int64_t rows = known_rows(g);
    const ExpandedWeights expansion = expansion_of(g);
    // Without overflow.
    const double elements =
        static_cast<double>(expansion.groups) * static_cast<double>(rows) * static_cast<double>(g.n);
    const double products = elements * static_cast<double>(g.k);
    const double row_bytes = static_cast<double>(g.k) * bits(expansion.values) / 8 + hopper_alignment;
    const double bytes = static_cast<double>(expansion.groups) * static_cast<double>(g.n) * row_bytes;
    return rows >= route->expanded_rows && g.n >= least_expanded_columns && elements >= least_expanded_elements &&
           products >= least_expanded_products && bytes <= static_cast<double>(most_expanded_bytes);
}

}  // namespace tilewright
